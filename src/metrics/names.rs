//! What each published metric is: its name, its unit, its meaning. All of them have the label `device`.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// Counters: how many since the device was opened for the first time.
const COUNTERS: [(&str, Unit, &str); 12] = [
    (
        "millstream_tasks_total",
        Unit::Count,
        "tasks that queues were given",
    ),
    (
        "millstream_launches_total",
        Unit::Count,
        "kernel launches among them",
    ),
    (
        "millstream_batches_total",
        Unit::Count,
        "batches that queues were given",
    ),
    (
        "millstream_waits_issued_total",
        Unit::Count,
        "waits of one queue for another",
    ),
    (
        "millstream_waits_implied_total",
        Unit::Count,
        "waits that were not needed: a clock or a completion implied them",
    ),
    (
        "millstream_tasks_parked_total",
        Unit::Count,
        "tasks that were held behind one that could not go",
    ),
    (
        "millstream_tasks_withdrawn_total",
        Unit::Count,
        "tasks that were cancelled, or whose deadline passed, in time",
    ),
    (
        "millstream_soft_limit_crossings_total",
        Unit::Count,
        "how often a client went above its soft limit",
    ),
    (
        "millstream_faults_total",
        Unit::Count,
        "tasks that failed, by `reason`",
    ),
    (
        "millstream_queue_tasks_total",
        Unit::Count,
        "cursors of a `queue`",
    ),
    (
        "millstream_queue_busy_nanoseconds_total",
        Unit::Nanoseconds,
        "time in which a `queue` ran tasks, where that is measured",
    ),
    (
        "millstream_client_tasks_total",
        Unit::Count,
        "what the streams of a `client` have issued",
    ),
];

/// Gauges: as it is now.
const GAUGES: [(&str, Unit, &str); 21] = [
    (
        "millstream_epoch",
        Unit::Count,
        "how often the device was lost and opened again",
    ),
    (
        "millstream_mailbox_depth",
        Unit::Count,
        "messages that wait to be taken",
    ),
    (
        "millstream_mailbox_capacity",
        Unit::Count,
        "messages after which senders wait",
    ),
    ("millstream_streams", Unit::Count, "live streams"),
    (
        "millstream_tasks_held",
        Unit::Count,
        "tasks that streams hold",
    ),
    (
        "millstream_memory_bytes",
        Unit::Bytes,
        "device memory by `state`: in_use, reserved (all pages), padding, waiting",
    ),
    (
        "millstream_memory_high_water_bytes",
        Unit::Bytes,
        "the most that was ever in use",
    ),
    ("millstream_slices", Unit::Count, "live slices"),
    (
        "millstream_slices_poisoned",
        Unit::Count,
        "slices whose data is the failure of a task",
    ),
    (
        "millstream_slices_waiting",
        Unit::Count,
        "dropped slices that a task still uses",
    ),
    (
        "millstream_slice_wait_longest_seconds",
        Unit::Seconds,
        "how long the first of them has waited, where latencies are sampled",
    ),
    (
        "millstream_values_waiting",
        Unit::Count,
        "values to be dropped after tasks that have not ended",
    ),
    (
        "millstream_values_parked",
        Unit::Count,
        "values that are kept for ever: a lost device may use them",
    ),
    (
        "millstream_queue_depth",
        Unit::Count,
        "tasks of a `queue` in flight",
    ),
    (
        "millstream_queue_depth_max",
        Unit::Count,
        "the most that a `queue` has in flight",
    ),
    (
        "millstream_queue_held",
        Unit::Count,
        "tasks held by the streams of a `queue`",
    ),
    (
        "millstream_queue_streams",
        Unit::Count,
        "streams of a `queue`",
    ),
    (
        "millstream_client_memory_bytes",
        Unit::Bytes,
        "memory of the slices of a `client`, padding included",
    ),
    (
        "millstream_client_memory_high_water_bytes",
        Unit::Bytes,
        "the most that a `client` ever had",
    ),
    (
        "millstream_client_streams",
        Unit::Count,
        "streams of a `client`",
    ),
    (
        "millstream_client_tasks_held",
        Unit::Count,
        "tasks that the streams of a `client` hold",
    ),
];

/// Histograms: what has come since the last publication.
const HISTOGRAMS: [(&str, Unit, &str); 5] = [
    ("millstream_batch_tasks", Unit::Count, "tasks of a batch"),
    (
        "millstream_task_queued_seconds",
        Unit::Seconds,
        "from a task's admission until a queue was given it, of a sample",
    ),
    (
        "millstream_task_run_seconds",
        Unit::Seconds,
        "from then until its completion was published, of a sample",
    ),
    (
        "millstream_slice_wait_seconds",
        Unit::Seconds,
        "from the drop of a slice in use until it was free",
    ),
    (
        "millstream_value_wait_seconds",
        Unit::Seconds,
        "from the hand-over of a value to the GC until it was dropped",
    ),
];

/// Tells the installed recorder.
pub(super) fn describe_all() {
    for (name, unit, text) in COUNTERS {
        describe_counter!(name, unit, text);
    }
    for (name, unit, text) in GAUGES {
        describe_gauge!(name, unit, text);
    }
    for (name, unit, text) in HISTOGRAMS {
        describe_histogram!(name, unit, text);
    }
}

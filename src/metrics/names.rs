//! The name, unit and meaning of each published metric. All metrics have the label `device`.
//!
//! Each text is shown alone, as the HELP line of its metric, so it states what is counted or measured and in which
//! unit, and refers to no other text.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// Counters, from the first opening of the device on.
const COUNTERS: [(&str, Unit, &str); 12] = [
    (
        "millstream_tasks_total",
        Unit::Count,
        "Tasks issued to queues: launches, copies, fills and all others, in tasks.",
    ),
    (
        "millstream_launches_total",
        Unit::Count,
        "Kernel launches issued to queues, in launches.",
    ),
    (
        "millstream_batches_total",
        Unit::Count,
        "Batches of tasks handed to queues together, in batches.",
    ),
    (
        "millstream_waits_issued_total",
        Unit::Count,
        "Waits of one queue for another issued to the device, in waits.",
    ),
    (
        "millstream_waits_implied_total",
        Unit::Count,
        "Waits of one queue for another that were not issued, since a vector clock or a completion implied them, in waits.",
    ),
    (
        "millstream_tasks_parked_total",
        Unit::Count,
        "Tasks parked behind a task that could not be issued, in tasks.",
    ),
    (
        "millstream_tasks_withdrawn_total",
        Unit::Count,
        "Tasks withdrawn before they began, by a cancellation or a deadline, in tasks.",
    ),
    (
        "millstream_soft_limit_crossings_total",
        Unit::Count,
        "Times that the memory of a client went above its soft limit, in crossings.",
    ),
    (
        "millstream_faults_total",
        Unit::Count,
        "Tasks that failed, in tasks, by `reason`.",
    ),
    (
        "millstream_queue_tasks_total",
        Unit::Count,
        "Tasks issued to a `queue`, in places of its order: a replay counts each task of its recording.",
    ),
    (
        "millstream_queue_busy_nanoseconds_total",
        Unit::Nanoseconds,
        "Time in which a `queue` ran tasks, in nanoseconds; zero where the device does not measure it.",
    ),
    (
        "millstream_client_tasks_total",
        Unit::Count,
        "Tasks issued from the streams of a `client`, in tasks.",
    ),
];

/// Gauges, with the current value.
const GAUGES: [(&str, Unit, &str); 21] = [
    (
        "millstream_epoch",
        Unit::Count,
        "Times that the device was reopened after a loss, in openings after the first.",
    ),
    (
        "millstream_mailbox_depth",
        Unit::Count,
        "Messages in the mailbox that the device has not received yet, in messages.",
    ),
    (
        "millstream_mailbox_capacity",
        Unit::Count,
        "Messages that the device's mailbox holds before senders block, in messages.",
    ),
    (
        "millstream_streams",
        Unit::Count,
        "Streams that are alive on the device, in streams.",
    ),
    (
        "millstream_tasks_held",
        Unit::Count,
        "Tasks that streams have accepted and not issued yet, in tasks.",
    ),
    (
        "millstream_memory_bytes",
        Unit::Bytes,
        "Memory of the device in bytes, by `state`: in_use (by slices), reserved (in pages), padding, waiting (dropped, still used by tasks).",
    ),
    (
        "millstream_memory_high_water_bytes",
        Unit::Bytes,
        "The most memory of the device that slices have used at a time, in bytes.",
    ),
    (
        "millstream_slices",
        Unit::Count,
        "Slices of device memory that are alive, in slices.",
    ),
    (
        "millstream_slices_poisoned",
        Unit::Count,
        "Live slices that the failure of a task has poisoned, in slices.",
    ),
    (
        "millstream_slices_waiting",
        Unit::Count,
        "Dropped slices that a task still uses, in slices.",
    ),
    (
        "millstream_slice_wait_longest_seconds",
        Unit::Seconds,
        "Time since the oldest dropped slice that a task still uses was dropped, in seconds; zero if latencies are not sampled.",
    ),
    (
        "millstream_values_waiting",
        Unit::Count,
        "Values to drop after tasks that have not completed, in values.",
    ),
    (
        "millstream_values_parked",
        Unit::Count,
        "Values that are never dropped, since a lost device may still use them, in values.",
    ),
    (
        "millstream_queue_depth",
        Unit::Count,
        "Tasks issued to a `queue` and not completed, in tasks.",
    ),
    (
        "millstream_queue_depth_max",
        Unit::Count,
        "The most tasks that a `queue` may have in flight (`max_in_flight`), in tasks.",
    ),
    (
        "millstream_queue_held",
        Unit::Count,
        "Tasks that the streams of a `queue` have accepted and not issued yet, in tasks.",
    ),
    (
        "millstream_queue_streams",
        Unit::Count,
        "Streams assigned to a `queue`, in streams.",
    ),
    (
        "millstream_client_memory_bytes",
        Unit::Bytes,
        "Memory of the slices of a `client`, padding included, in bytes.",
    ),
    (
        "millstream_client_memory_high_water_bytes",
        Unit::Bytes,
        "The most memory that the slices of a `client` have used at a time, padding included, in bytes.",
    ),
    (
        "millstream_client_streams",
        Unit::Count,
        "Streams of a `client` that are alive, in streams.",
    ),
    (
        "millstream_client_tasks_held",
        Unit::Count,
        "Tasks that the streams of a `client` have accepted and not issued yet, in tasks.",
    ),
];

/// Histograms, with the observations since the last publication.
const HISTOGRAMS: [(&str, Unit, &str); 5] = [
    (
        "millstream_batch_tasks",
        Unit::Count,
        "Sizes of the batches handed to queues, in tasks.",
    ),
    (
        "millstream_task_queued_seconds",
        Unit::Seconds,
        "Time from the admission of a task until its issue to a queue, of sampled tasks, in seconds.",
    ),
    (
        "millstream_task_run_seconds",
        Unit::Seconds,
        "Time from the issue of a task until the publication of its completion, of sampled tasks, in seconds.",
    ),
    (
        "millstream_slice_wait_seconds",
        Unit::Seconds,
        "Time from the drop of a slice that tasks still used until its memory was free, of sampled slices, in seconds.",
    ),
    (
        "millstream_value_wait_seconds",
        Unit::Seconds,
        "Time from the hand-over of a value to the GC actor until the value was dropped, of sampled values, in seconds.",
    ),
];

/// Describes every metric to the installed recorder.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// HELP lines are displayed one at a time.
    #[test]
    fn each_text_names_its_unit_and_refers_to_no_other() {
        let units = [
            "in tasks",
            "in launches",
            "in batches",
            "in waits",
            "in crossings",
            "in places",
            "in nanoseconds",
            "in seconds",
            "in bytes",
            "in messages",
            "in streams",
            "in slices",
            "in values",
            "in openings",
        ];
        let all = COUNTERS.iter().chain(&GAUGES).chain(&HISTOGRAMS);
        for (name, _, text) in all {
            assert!(
                text.starts_with(char::is_uppercase) && text.ends_with('.'),
                "{name}: {text}"
            );
            assert!(
                units.iter().any(|unit| text.contains(unit)),
                "{name}: {text}"
            );
            let refers = ["among them", "from then", "of them", "it is"];
            assert!(
                !refers.iter().any(|other| text.contains(other)),
                "{name}: {text}"
            );
        }
    }
}

//! The name and meaning of each published metric, and where a snapshot has its values. All metrics have the label
//! `device`.
//!
//! Each text is shown alone, as the HELP line of its metric, so it states what is counted or measured and in which
//! unit, and refers to no other text.

use metrics::{SharedString, Unit, describe_counter, describe_gauge, describe_histogram};

use super::{ClientMetrics, Metrics};
use crate::report::{MemoryUsage, QueueStats};

/// The name and value of a further label, if the metric has one.
pub(super) type MoreLabel = Option<(&'static str, SharedString)>;

/// The values of a metric, one for each value of its further label.
type Values = Vec<(MoreLabel, u64)>;

/// What a metric is, and where a snapshot has its values. Times are in nanoseconds.
pub(super) enum Source {
    /// A counter, from the first opening of the device on.
    Counter(fn(&Metrics) -> Values),
    /// The tasks of each client: a counter that outlives its clients.
    ClientTasks,
    /// A gauge, with the current value.
    Gauge(fn(&Metrics) -> Values),
    /// A gauge for each name of clients, with the sum over all of that name.
    ClientGauge(fn(&ClientMetrics) -> u64),
    /// A histogram, with the observations since the last publication.
    Histogram(fn(&Metrics) -> Option<&super::Histogram>),
}

use Source::{ClientGauge, ClientTasks, Counter, Gauge, Histogram};

/// All metrics.
pub(super) const METRICS: [(&str, &str, Source); 38] = [
    (
        "millstream_tasks_total",
        "Tasks issued to queues: launches, copies, fills and all others, in tasks.",
        Counter(|all| one(all.stats.tasks)),
    ),
    (
        "millstream_launches_total",
        "Kernel launches issued to queues, in launches.",
        Counter(|all| one(all.stats.launches)),
    ),
    (
        "millstream_batches_total",
        "Batches of tasks handed to queues together, in batches.",
        Counter(|all| one(all.stats.batches)),
    ),
    (
        "millstream_waits_issued_total",
        "Waits of one queue for another issued to the device, in waits.",
        Counter(|all| one(all.stats.waits_issued)),
    ),
    (
        "millstream_waits_implied_total",
        "Waits of one queue for another that were not issued, since a vector clock or a completion implied them, in waits.",
        Counter(|all| one(all.stats.waits_implied)),
    ),
    (
        "millstream_tasks_parked_total",
        "Tasks parked behind a task that could not be issued, in tasks.",
        Counter(|all| one(all.stats.tasks_parked)),
    ),
    (
        "millstream_tasks_withdrawn_total",
        "Tasks withdrawn before they began, by a cancellation or a deadline, in tasks.",
        Counter(|all| one(all.stats.withdrawn)),
    ),
    (
        "millstream_soft_limit_crossings_total",
        "Times that the memory of a client went above its soft limit, in crossings.",
        Counter(|all| one(all.stats.soft_limit_crossings)),
    ),
    (
        "millstream_faults_total",
        "Tasks that failed, in tasks, by `reason`.",
        Counter(|all| by("reason", all.faults.by_reason())),
    ),
    (
        "millstream_queue_tasks_total",
        "Tasks issued to a `queue`, in places of its order: a replay counts each task of its recording.",
        Counter(|all| by_queue(all, |queue| queue.tasks)),
    ),
    (
        "millstream_queue_busy_nanoseconds_total",
        "Time in which a `queue` ran tasks, in nanoseconds; zero where the device does not measure it.",
        Counter(|all| by_queue(all, |queue| queue.busy_ns)),
    ),
    (
        "millstream_client_tasks_total",
        "Tasks issued from the streams of a `client`, in tasks.",
        ClientTasks,
    ),
    (
        "millstream_epoch",
        "Times that the device was reopened after a loss, in openings after the first.",
        Gauge(|all| one(all.epoch)),
    ),
    (
        "millstream_mailbox_depth",
        "Messages in the mailbox that the device has not received yet, in messages.",
        Gauge(|all| one(all.mailbox_depth)),
    ),
    (
        "millstream_mailbox_capacity",
        "Messages that the device's mailbox holds before senders block, in messages.",
        Gauge(|all| one(all.mailbox_capacity)),
    ),
    (
        "millstream_streams",
        "Streams that are alive on the device, in streams.",
        Gauge(|all| one(all.stats.streams)),
    ),
    (
        "millstream_tasks_held",
        "Tasks that streams have accepted and not issued yet, in tasks.",
        Gauge(|all| one(all.stats.tasks_held)),
    ),
    (
        "millstream_memory_bytes",
        "Memory of the device in bytes, by `state`: in_use (by slices), reserved (in pages), padding, waiting (dropped, still used by tasks).",
        Gauge(|all| by("state", states(&all.stats.memory))),
    ),
    (
        "millstream_memory_high_water_bytes",
        "The most memory of the device that slices have used at a time, in bytes.",
        Gauge(|all| one(all.stats.memory.high_water)),
    ),
    (
        "millstream_slices",
        "Slices of device memory that are alive, in slices.",
        Gauge(|all| one(all.stats.memory.live_slices)),
    ),
    (
        "millstream_slices_poisoned",
        "Live slices that the failure of a task has poisoned, in slices.",
        Gauge(|all| one(all.slices_poisoned)),
    ),
    (
        "millstream_slices_waiting",
        "Dropped slices that a task still uses, in slices.",
        Gauge(|all| one(all.collection.slices_waiting)),
    ),
    (
        "millstream_slice_wait_longest_seconds",
        "Time since the oldest dropped slice that a task still uses was dropped, in seconds; zero if latencies are not sampled.",
        Gauge(|all| one(all.collection.slice_waits_ns_max.unwrap_or(0))),
    ),
    (
        "millstream_values_waiting",
        "Values to drop after tasks that have not completed, in values.",
        Gauge(|all| one(all.collection.values_waiting)),
    ),
    (
        "millstream_values_parked",
        "Values that are never dropped, since a lost device may still use them, in values.",
        Gauge(|all| one(all.stats.values_parked)),
    ),
    (
        "millstream_queue_depth",
        "Tasks issued to a `queue` and not completed, in tasks.",
        Gauge(|all| by_queue(all, QueueStats::in_flight)),
    ),
    (
        "millstream_queue_depth_max",
        "The most tasks that a `queue` may have in flight (`max_in_flight`), in tasks.",
        Gauge(|all| by_queue(all, |queue| queue.in_flight_max)),
    ),
    (
        "millstream_queue_held",
        "Tasks that the streams of a `queue` have accepted and not issued yet, in tasks.",
        Gauge(|all| by_queue(all, |queue| queue.held)),
    ),
    (
        "millstream_queue_streams",
        "Streams assigned to a `queue`, in streams.",
        Gauge(|all| by_queue(all, |queue| queue.streams)),
    ),
    (
        "millstream_client_memory_bytes",
        "Memory of the slices of a `client`, padding included, in bytes.",
        ClientGauge(|client| client.memory.in_use),
    ),
    (
        "millstream_client_memory_high_water_bytes",
        "The most memory that the slices of a `client` have used at a time, padding included, in bytes.",
        ClientGauge(|client| client.memory.high_water),
    ),
    (
        "millstream_client_streams",
        "Streams of a `client` that are alive, in streams.",
        ClientGauge(|client| client.streams),
    ),
    (
        "millstream_client_tasks_held",
        "Tasks that the streams of a `client` have accepted and not issued yet, in tasks.",
        ClientGauge(|client| client.tasks_held),
    ),
    (
        "millstream_batch_tasks",
        "Sizes of the batches handed to queues, in tasks.",
        Histogram(|all| Some(&all.batch_sizes)),
    ),
    (
        "millstream_task_queued_seconds",
        "Time from the admission of a task until its issue to a queue, of sampled tasks, in seconds.",
        Histogram(|all| Some(&all.latencies.as_ref()?.queued_ns)),
    ),
    (
        "millstream_task_run_seconds",
        "Time from the issue of a task until the publication of its completion, of sampled tasks, in seconds.",
        Histogram(|all| Some(&all.latencies.as_ref()?.runs_ns)),
    ),
    (
        "millstream_slice_wait_seconds",
        "Time from the drop of a slice that tasks still used until its memory was free, of sampled slices, in seconds.",
        Histogram(|all| Some(&all.latencies.as_ref()?.slice_waits_ns)),
    ),
    (
        "millstream_value_wait_seconds",
        "Time from the hand-over of a value to the GC actor until the value was dropped, of sampled values, in seconds.",
        Histogram(|all| Some(&all.latencies.as_ref()?.value_waits_ns)),
    ),
];

fn one(value: u64) -> Values {
    vec![(None, value)]
}

fn by<const N: usize>(label: &'static str, values: [(&'static str, u64); N]) -> Values {
    let labelled = values.map(|(name, value)| (Some((label, name.into())), value));
    labelled.into()
}

fn by_queue(metrics: &Metrics, of: fn(&QueueStats) -> u64) -> Values {
    let queues = metrics.stats.queues.iter().enumerate();
    let label = |index: usize| Some(("queue", index.to_string().into()));
    queues
        .map(|(index, queue)| (label(index), of(queue)))
        .collect()
}

fn states(memory: &MemoryUsage) -> [(&'static str, u64); 4] {
    [
        ("in_use", memory.in_use),
        ("reserved", memory.reserved),
        ("padding", memory.padding),
        ("waiting", memory.waiting),
    ]
}

/// Returns the unit of the metric, which its name ends with.
pub(super) fn unit(name: &str) -> Unit {
    match name.trim_end_matches("_total").rsplit('_').next() {
        Some("seconds") => Unit::Seconds,
        Some("nanoseconds") => Unit::Nanoseconds,
        Some("bytes") => Unit::Bytes,
        _ => Unit::Count,
    }
}

/// Describes every metric to the installed recorder.
pub(super) fn describe_all() {
    for (name, text, source) in METRICS {
        match source {
            Counter(_) | ClientTasks => describe_counter!(name, unit(name), text),
            Gauge(_) | ClientGauge(_) => describe_gauge!(name, unit(name), text),
            Histogram(_) => describe_histogram!(name, unit(name), text),
        }
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
        for (name, text, _) in METRICS {
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

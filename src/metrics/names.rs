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

/// Defines [`METRICS`], one row for each metric: its name, where a snapshot has its values, and its text.
macro_rules! table {
    ($($name:ident: $source:expr, $text:literal;)*) => {
        /// All metrics: name, text and source.
        pub(super) const METRICS: [(&str, &str, Source); 38] =
            [$((concat!("millstream_", stringify!($name)), $text, $source)),*];
    };
}

table! {
    tasks_total: Counter(|all| one(all.stats.tasks)),
        "Tasks issued to queues: launches, copies, fills and all others, in tasks.";
    launches_total: Counter(|all| one(all.stats.launches)),
        "Kernel launches issued to queues, in launches.";
    batches_total: Counter(|all| one(all.stats.batches)),
        "Batches of tasks handed to queues together, in batches.";
    waits_issued_total: Counter(|all| one(all.stats.waits_issued)),
        "Waits of one queue for another issued to the device, in waits.";
    waits_implied_total: Counter(|all| one(all.stats.waits_implied)),
        "Waits of one queue for another that were not issued, since a vector clock or a completion implied them, in waits.";
    tasks_parked_total: Counter(|all| one(all.stats.tasks_parked)),
        "Tasks parked behind a task that could not be issued, in tasks.";
    tasks_withdrawn_total: Counter(|all| one(all.stats.withdrawn)),
        "Tasks withdrawn before they began, by a cancellation or a deadline, in tasks.";
    soft_limit_crossings_total: Counter(|all| one(all.stats.soft_limit_crossings)),
        "Times that the memory of a client went above its soft limit, in crossings.";
    faults_total: Counter(|all| by("reason", all.faults.by_reason())),
        "Tasks that failed, in tasks, by `reason`.";
    queue_tasks_total: Counter(|all| by_queue(all, |queue| queue.tasks)),
        "Tasks issued to a `queue`, in places of its order: a replay counts each task of its recording.";
    queue_busy_nanoseconds_total: Counter(|all| by_queue(all, |queue| queue.busy_ns)),
        "Time in which a `queue` ran tasks, in nanoseconds; zero where the device does not measure it.";
    client_tasks_total: ClientTasks,
        "Tasks issued from the streams of a `client`, in tasks.";
    epoch: Gauge(|all| one(all.epoch)),
        "Times that the device was reopened after a loss, in openings after the first.";
    mailbox_depth: Gauge(|all| one(all.mailbox_depth)),
        "Messages in the mailbox that the device has not received yet, in messages.";
    mailbox_capacity: Gauge(|all| one(all.mailbox_capacity)),
        "Messages that the device's mailbox holds before senders block, in messages.";
    streams: Gauge(|all| one(all.stats.streams)),
        "Streams that are alive on the device, in streams.";
    tasks_held: Gauge(|all| one(all.stats.tasks_held)),
        "Tasks that streams have accepted and not issued yet, in tasks.";
    memory_bytes: Gauge(|all| by("state", states(&all.stats.memory))),
        "Memory of the device in bytes, by `state`: in_use (by slices), reserved (in pages), padding, waiting (dropped, still used by tasks).";
    memory_high_water_bytes: Gauge(|all| one(all.stats.memory.high_water)),
        "The most memory of the device that slices have used at a time, in bytes.";
    slices: Gauge(|all| one(all.stats.memory.live_slices)),
        "Slices of device memory that are alive, in slices.";
    slices_poisoned: Gauge(|all| one(all.slices_poisoned)),
        "Live slices that the failure of a task has poisoned, in slices.";
    slices_waiting: Gauge(|all| one(all.collection.slices_waiting)),
        "Dropped slices that a task still uses, in slices.";
    slice_wait_longest_seconds: Gauge(|all| one(all.collection.slice_waits_ns_max.unwrap_or(0))),
        "Time since the oldest dropped slice that a task still uses was dropped, in seconds; zero if latencies are not sampled.";
    values_waiting: Gauge(|all| one(all.collection.values_waiting)),
        "Values to drop after tasks that have not completed, in values.";
    values_parked: Gauge(|all| one(all.stats.values_parked)),
        "Values that are never dropped, since a lost device may still use them, in values.";
    queue_depth: Gauge(|all| by_queue(all, QueueStats::in_flight)),
        "Tasks issued to a `queue` and not completed, in tasks.";
    queue_depth_max: Gauge(|all| by_queue(all, |queue| queue.in_flight_max)),
        "The most tasks that a `queue` may have in flight (`max_in_flight`), in tasks.";
    queue_held: Gauge(|all| by_queue(all, |queue| queue.held)),
        "Tasks that the streams of a `queue` have accepted and not issued yet, in tasks.";
    queue_streams: Gauge(|all| by_queue(all, |queue| queue.streams)),
        "Streams assigned to a `queue`, in streams.";
    client_memory_bytes: ClientGauge(|client| client.memory.in_use),
        "Memory of the slices of a `client`, padding included, in bytes.";
    client_memory_high_water_bytes: ClientGauge(|client| client.memory.high_water),
        "The most memory that the slices of a `client` have used at a time, padding included, in bytes.";
    client_streams: ClientGauge(|client| client.streams),
        "Streams of a `client` that are alive, in streams.";
    client_tasks_held: ClientGauge(|client| client.tasks_held),
        "Tasks that the streams of a `client` have accepted and not issued yet, in tasks.";
    batch_tasks: Histogram(|all| Some(&all.batch_sizes)),
        "Sizes of the batches handed to queues, in tasks.";
    task_queued_seconds: Histogram(|all| Some(&all.latencies.as_ref()?.queued_ns)),
        "Time from the admission of a task until its issue to a queue, of sampled tasks, in seconds.";
    task_run_seconds: Histogram(|all| Some(&all.latencies.as_ref()?.runs_ns)),
        "Time from the issue of a task until the publication of its completion, of sampled tasks, in seconds.";
    slice_wait_seconds: Histogram(|all| Some(&all.latencies.as_ref()?.slice_waits_ns)),
        "Time from the drop of a slice that tasks still used until its memory was free, of sampled slices, in seconds.";
    value_wait_seconds: Histogram(|all| Some(&all.latencies.as_ref()?.value_waits_ns)),
        "Time from when the device gave a value up until the GC actor dropped it, of sampled values, in seconds.";
}

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

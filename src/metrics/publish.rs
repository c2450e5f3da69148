//! Publishes snapshots to the facade of the `metrics` crate, and so to its user's exporter.
//!
//! This only translates: names, labels, and differences to the previous publication. It starts nothing and queries no
//! device.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use metrics::{Key, Label, Level, Metadata, SharedString, with_recorder};

use super::names::describe_all;
use super::{ClientMetrics, Histogram, Metrics};
use crate::{report::QueueStats, stream::ClientId};

/// The metadata that a recorder may filter by.
static METADATA: Metadata<'static> =
    Metadata::new("millstream", Level::INFO, Some("millstream::metrics"));

/// The most clients with a label of their own. Each label value creates a permanent series, while clients come and go.
const CLIENTS_MAX: usize = 100;

/// The label of all further clients.
const OTHERS: &str = "others";

/// About the most observations that a histogram receives in one publication; exporters store each of them.
const OBSERVATIONS_MAX: u64 = 1_000;

/// Converts nanoseconds to seconds.
const NS: f64 = 1e-9;

/// Publishes snapshots of one device to the facade of the crate [`metrics`](https://docs.rs/metrics), for the recorder
/// that is installed at that time.
///
/// Counters are absolute and continue across epochs. A histogram receives the observations since the previous
/// publication, as the middles of their buckets in seconds or tasks. If there are more than about a thousand, their
/// number is scaled down in proportion, so use counters for numbers of events. Each name starts with `millstream_`, and
/// each metric has the label `device`; [`Publisher::describe`] describes them to the recorder.
///
/// ```
/// use millstream::metrics::Publisher;
/// use millstream::{Cpu, Device, DeviceOptions};
///
/// let device = Device::open_with(Cpu::default(), DeviceOptions::default().sample_latencies(64))?;
/// Publisher::describe();
/// let mut publisher = Publisher::new("cpu");
/// // As often as you like, on any thread.
/// publisher.publish(&device.metrics()?);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct Publisher {
    device: SharedString,
    last: Option<Metrics>,
    totals: HashMap<Key, Total>,
    clients: Clients,
}

/// A counter across all epochs.
#[derive(Default)]
struct Total {
    earlier_epochs: u64,
    this_epoch: u64,
}

/// The tasks of clients.
#[derive(Default)]
struct Clients {
    /// The tasks of each client at the last publication, in this epoch.
    seen: HashMap<ClientId, u64>,
    /// The total tasks by name. Clients that are gone stay.
    tasks: HashMap<Arc<str>, u64>,
}

impl Publisher {
    /// Creates the publisher of the device with this label. Use one publisher for each device, since it keeps what it
    /// has published.
    pub fn new(device: impl Into<String>) -> Self {
        Self {
            device: device.into().into(),
            last: None,
            totals: HashMap::new(),
            clients: Clients::default(),
        }
    }

    /// Describes the unit and meaning of each metric to the installed recorder. One call suffices for all devices.
    pub fn describe() {
        describe_all();
    }

    /// Publishes a snapshot. Blocks on nothing but the recorder. A snapshot that is older than the last published one,
    /// for example because another thread was slower, is ignored: the newer one included it.
    pub fn publish(&mut self, metrics: &Metrics) {
        let age = |metrics: &Metrics| (metrics.epoch, metrics.stats.tasks);
        if self
            .last
            .as_ref()
            .is_some_and(|last| age(metrics) < age(last))
        {
            return;
        }
        if self
            .last
            .take_if(|last| last.epoch != metrics.epoch)
            .is_some()
        {
            // The device was reopened, so its counters restarted at 0.
            for total in self.totals.values_mut() {
                total.earlier_epochs += std::mem::take(&mut total.this_epoch);
            }
            self.clients.seen.clear();
        }
        self.counters(metrics);
        self.gauges(metrics);
        for (index, queue) in metrics.stats.queues.iter().enumerate() {
            self.queue(index, queue);
        }
        self.publish_clients(metrics);
        self.histograms(metrics);
        self.last = Some(metrics.clone());
    }

    fn counters(&mut self, metrics: &Metrics) {
        let stats = &metrics.stats;
        for (name, count) in [
            ("millstream_tasks_total", stats.tasks),
            ("millstream_launches_total", stats.launches),
            ("millstream_batches_total", stats.batches),
            ("millstream_waits_issued_total", stats.waits_issued),
            ("millstream_waits_implied_total", stats.waits_implied),
            ("millstream_tasks_parked_total", stats.tasks_parked),
            ("millstream_tasks_withdrawn_total", stats.withdrawn),
            (
                "millstream_soft_limit_crossings_total",
                stats.soft_limit_crossings,
            ),
        ] {
            self.counter(name, None, count);
        }
        for (reason, count) in metrics.faults.by_reason() {
            self.counter(
                "millstream_faults_total",
                Some(("reason", reason.into())),
                count,
            );
        }
    }

    fn gauges(&self, metrics: &Metrics) {
        let (stats, waits) = (&metrics.stats, &metrics.collection);
        for (name, value) in [
            ("millstream_epoch", metrics.epoch),
            ("millstream_mailbox_depth", metrics.mailbox_depth),
            ("millstream_mailbox_capacity", metrics.mailbox_capacity),
            ("millstream_streams", stats.streams),
            ("millstream_tasks_held", stats.tasks_held),
            (
                "millstream_memory_high_water_bytes",
                stats.memory.high_water,
            ),
            ("millstream_slices", stats.memory.live_slices),
            ("millstream_slices_poisoned", metrics.slices_poisoned),
            ("millstream_slices_waiting", waits.slices_waiting),
            ("millstream_values_waiting", waits.values_waiting),
            ("millstream_values_parked", stats.values_parked),
        ] {
            self.gauge(name, None, value as f64);
        }
        for (state, bytes) in [
            ("in_use", stats.memory.in_use),
            ("reserved", stats.memory.reserved),
            ("padding", stats.memory.padding),
            ("waiting", stats.memory.waiting),
        ] {
            self.gauge(
                "millstream_memory_bytes",
                Some(("state", state.into())),
                bytes as f64,
            );
        }
        let longest = waits.slice_waits_ns_max.unwrap_or(0) as f64 * NS;
        self.gauge("millstream_slice_wait_longest_seconds", None, longest);
    }

    fn queue(&mut self, index: usize, queue: &QueueStats) {
        let label = || Some(("queue", SharedString::from(index.to_string())));
        self.counter("millstream_queue_tasks_total", label(), queue.tasks);
        self.counter(
            "millstream_queue_busy_nanoseconds_total",
            label(),
            queue.busy_ns,
        );
        for (name, value) in [
            ("millstream_queue_depth", queue.in_flight()),
            ("millstream_queue_depth_max", queue.in_flight_max),
            ("millstream_queue_held", queue.held),
            ("millstream_queue_streams", queue.streams),
        ] {
            self.gauge(name, label(), value as f64);
        }
    }

    fn publish_clients(&mut self, metrics: &Metrics) {
        let mut present: HashMap<Arc<str>, [u64; 4]> = HashMap::new();
        for client in &metrics.clients {
            let name = self
                .clients
                .add(client.client(), &client.name, client.tasks);
            let memory = &client.memory;
            let figures = [
                memory.in_use,
                memory.high_water,
                client.streams,
                client.tasks_held,
            ];
            let sums = present.entry(name).or_default();
            sums.iter_mut()
                .zip(figures)
                .for_each(|(sum, figure)| *sum += figure);
        }
        self.clients.retain_present(metrics);
        for (name, tasks) in &self.clients.tasks {
            let figures = present.get(name).copied().unwrap_or_default();
            let label = || Some(("client", SharedString::from(name.to_string())));
            let key = self.key("millstream_client_tasks_total", label());
            with_recorder(|recorder| recorder.register_counter(&key, &METADATA).absolute(*tasks));
            let names = [
                "millstream_client_memory_bytes",
                "millstream_client_memory_high_water_bytes",
                "millstream_client_streams",
                "millstream_client_tasks_held",
            ];
            for (name, figure) in names.into_iter().zip(figures) {
                self.gauge(name, label(), figure as f64);
            }
        }
    }

    fn histograms(&self, metrics: &Metrics) {
        let last = self.last.as_ref();
        let earlier = last.map(|last| &last.batch_sizes);
        self.histogram("millstream_batch_tasks", &metrics.batch_sizes, earlier, 1.0);
        let Some(now) = &metrics.latencies else {
            return;
        };
        let then = last.and_then(|last| last.latencies.as_ref());
        for (name, histogram, earlier) in [
            (
                "millstream_task_queued_seconds",
                &now.queued_ns,
                then.map(|then| &then.queued_ns),
            ),
            (
                "millstream_task_run_seconds",
                &now.runs_ns,
                then.map(|then| &then.runs_ns),
            ),
            (
                "millstream_slice_wait_seconds",
                &now.slice_waits_ns,
                then.map(|then| &then.slice_waits_ns),
            ),
            (
                "millstream_value_wait_seconds",
                &now.value_waits_ns,
                then.map(|then| &then.value_waits_ns),
            ),
        ] {
            self.histogram(name, histogram, earlier, NS);
        }
    }

    fn key(&self, name: &'static str, label: Option<(&'static str, SharedString)>) -> Key {
        let device = Label::new("device", self.device.clone());
        let more = label.map(|(name, value)| Label::new(name, value));
        Key::from_parts(name, [device].into_iter().chain(more).collect::<Vec<_>>())
    }

    fn counter(
        &mut self,
        name: &'static str,
        label: Option<(&'static str, SharedString)>,
        count: u64,
    ) {
        let key = self.key(name, label);
        let total = self.totals.entry(key.clone()).or_default();
        total.this_epoch = count;
        let all = total.earlier_epochs + count;
        with_recorder(|recorder| recorder.register_counter(&key, &METADATA).absolute(all));
    }

    fn gauge(&self, name: &'static str, label: Option<(&'static str, SharedString)>, value: f64) {
        let key = self.key(name, label);
        with_recorder(|recorder| recorder.register_gauge(&key, &METADATA).set(value));
    }

    fn histogram(
        &self,
        name: &'static str,
        now: &Histogram,
        earlier: Option<&Histogram>,
        unit: f64,
    ) {
        let new = match earlier {
            Some(earlier) => now.since(earlier),
            None => now.clone(),
        };
        let key = self.key(name, None);
        let all = u128::from(new.count().max(OBSERVATIONS_MAX));
        with_recorder(|recorder| {
            let histogram = recorder.register_histogram(&key, &METADATA);
            for (middle, count) in new.buckets_at_middle() {
                // Rounded up, so that rare values, such as those in the tail, are not lost.
                let share = (u128::from(count) * u128::from(OBSERVATIONS_MAX)).div_ceil(all);
                histogram.record_many(middle as f64 * unit, share as usize);
            }
        });
    }
}

impl Clients {
    /// Adds the tasks of a client since the last publication. Returns the label of the client.
    fn add(&mut self, client: ClientId, name: &Arc<str>, tasks: u64) -> Arc<str> {
        let has_place = self.tasks.contains_key(name) || self.tasks.len() < CLIENTS_MAX;
        let name = if has_place {
            name.clone()
        } else {
            OTHERS.into()
        };
        let before = self.seen.insert(client, tasks).unwrap_or(0);
        *self.tasks.entry(name.clone()).or_default() += tasks.saturating_sub(before);
        name
    }

    /// Forgets clients that are gone, which do not come back.
    fn retain_present(&mut self, metrics: &Metrics) {
        let is_present = |client: &ClientId| {
            let found = metrics
                .clients
                .binary_search_by_key(client, ClientMetrics::client);
            found.is_ok()
        };
        self.seen.retain(|client, _| is_present(client));
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Publisher({:?})", self.device)
    }
}

//! Publishes snapshots to the facade of the `metrics` crate, and so to its user's exporter.
//!
//! This only translates: names, labels, and differences to the previous publication. It starts nothing and queries no
//! device.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use metrics::{Key, Label, Level, Metadata, SharedString, Unit, with_recorder};

use super::names::{METRICS, MoreLabel, Source, describe_all, unit};
use super::{ClientMetrics, Histogram, Metrics};
use crate::stream::ClientId;

/// The metadata that a recorder may filter by.
static METADATA: Metadata<'static> =
    Metadata::new("millstream", Level::INFO, Some("millstream::metrics"));

/// The most clients with a label of their own. Each label value creates a permanent series, while clients come and go.
const CLIENTS_MAX: usize = 100;

/// The label of all further clients.
const OTHERS: &str = "others";

/// About the most observations that a histogram receives in one publication; exporters store each of them.
const OBSERVATIONS_MAX: u64 = 1_000;

/// Returns what converts the values of a snapshot to the unit of the metric.
fn scale(name: &str) -> f64 {
    match unit(name) {
        Unit::Seconds => 1e-9,
        _ => 1.0,
    }
}

fn client_label(name: &Arc<str>) -> MoreLabel {
    Some(("client", SharedString::from(name.to_string())))
}

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
        let mut clients: HashMap<Arc<str>, Vec<&ClientMetrics>> = HashMap::new();
        for client in &metrics.clients {
            let name = self
                .clients
                .add(client.client(), &client.name, client.tasks);
            clients.entry(name).or_default().push(client);
        }
        self.clients.retain_present(metrics);
        for (name, _, source) in METRICS {
            match source {
                Source::Counter(of) => of(metrics)
                    .into_iter()
                    .for_each(|(label, count)| self.counter(name, label, count)),
                Source::Gauge(of) => of(metrics)
                    .into_iter()
                    .for_each(|(label, value)| self.gauge(name, label, value)),
                Source::ClientTasks => self.client_tasks(name),
                Source::ClientGauge(of) => {
                    for client in self.clients.tasks.keys() {
                        let present = clients.get(client).into_iter().flatten();
                        let sum = present.map(|client| of(client)).sum();
                        self.gauge(name, client_label(client), sum);
                    }
                }
                Source::Histogram(of) => {
                    if let Some(now) = of(metrics) {
                        let earlier = self.last.as_ref().and_then(of);
                        self.histogram(name, now, earlier);
                    }
                }
            }
        }
        self.last = Some(metrics.clone());
    }

    fn client_tasks(&self, name: &'static str) {
        for (client, tasks) in &self.clients.tasks {
            let key = self.key(name, client_label(client));
            with_recorder(|recorder| recorder.register_counter(&key, &METADATA).absolute(*tasks));
        }
    }

    fn key(&self, name: &'static str, label: MoreLabel) -> Key {
        let device = Label::new("device", self.device.clone());
        let more = label.map(|(name, value)| Label::new(name, value));
        Key::from_parts(name, [device].into_iter().chain(more).collect::<Vec<_>>())
    }

    fn counter(&mut self, name: &'static str, label: MoreLabel, count: u64) {
        let key = self.key(name, label);
        let total = self.totals.entry(key.clone()).or_default();
        total.this_epoch = count;
        let all = total.earlier_epochs + count;
        with_recorder(|recorder| recorder.register_counter(&key, &METADATA).absolute(all));
    }

    fn gauge(&self, name: &'static str, label: MoreLabel, value: u64) {
        let (key, value) = (self.key(name, label), value as f64 * scale(name));
        with_recorder(|recorder| recorder.register_gauge(&key, &METADATA).set(value));
    }

    fn histogram(&self, name: &'static str, now: &Histogram, earlier: Option<&Histogram>) {
        let new = match earlier {
            Some(earlier) => now.since(earlier),
            None => now.clone(),
        };
        let (key, scale) = (self.key(name, None), scale(name));
        let all = u128::from(new.count().max(OBSERVATIONS_MAX));
        with_recorder(|recorder| {
            let histogram = recorder.register_histogram(&key, &METADATA);
            for (middle, count) in new.buckets_at_middle() {
                // Rounded up, so that rare values, such as those in the tail, are not lost.
                let share = (u128::from(count) * u128::from(OBSERVATIONS_MAX)).div_ceil(all);
                histogram.record_many(middle as f64 * scale, share as usize);
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

//! A frame: the metrics of one device at one moment, computed from a snapshot and the previous one.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream::Device;
use millstream::metrics::{Histogram, Latencies, Metrics};
use serde::{Deserialize, Serialize};

/// The most clients of a frame, those with the most memory. A soak has thousands of clients.
const CLIENTS_MAX: usize = 200;

/// The published metrics of a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Frame {
    /// The command that publishes: `soak` or `demo`.
    pub(crate) command: String,
    pub(crate) device: String,
    pub(crate) pid: u32,
    /// Seconds since the first frame.
    pub(crate) uptime_s: f64,
    /// The time of publication, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// Whether this is the last frame of its source.
    pub(crate) is_last: bool,
    pub(crate) epoch: u64,
    pub(crate) tasks: u64,
    pub(crate) tasks_per_second: f64,
    pub(crate) launches: u64,
    pub(crate) batches: u64,
    pub(crate) batch_p50: u64,
    pub(crate) waits_issued: u64,
    pub(crate) waits_implied: u64,
    pub(crate) streams: u64,
    pub(crate) tasks_held: u64,
    pub(crate) mailbox_depth: u64,
    pub(crate) mailbox_capacity: u64,
    pub(crate) queues: Vec<Queue>,
    pub(crate) memory: Memory,
    /// The number of faults by reason, without zeros.
    pub(crate) faults: BTreeMap<String, u64>,
    pub(crate) slices_poisoned: u64,
    pub(crate) slices_waiting: u64,
    pub(crate) values_waiting: u64,
    pub(crate) latencies: Option<LatencyQuantiles>,
    /// The clients with the most memory.
    pub(crate) clients: Vec<Client>,
    /// The number of all clients.
    pub(crate) clients_total: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Queue {
    pub(crate) tasks: u64,
    pub(crate) depth: u64,
    pub(crate) depth_max: u64,
    pub(crate) held: u64,
    pub(crate) streams: u64,
    /// The busy share of the time since the previous frame, 0 to 1, if the device reports it.
    pub(crate) busy: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Memory {
    pub(crate) in_use: u64,
    pub(crate) reserved: u64,
    pub(crate) waiting: u64,
    pub(crate) high_water: u64,
    pub(crate) slices: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Client {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) streams: u64,
    pub(crate) tasks: u64,
    pub(crate) tasks_held: u64,
    pub(crate) in_use: u64,
    pub(crate) high_water: u64,
}

/// Latencies of sampled tasks since the previous frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LatencyQuantiles {
    pub(crate) queued: Quantiles,
    pub(crate) runs: Quantiles,
    pub(crate) slices: Quantiles,
    pub(crate) values: Quantiles,
}

/// Quantiles of a latency, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Quantiles {
    pub(crate) count: u64,
    pub(crate) p50_ns: u64,
    pub(crate) p90_ns: u64,
    pub(crate) p99_ns: u64,
}

impl Quantiles {
    /// Computes the quantiles of the values since `earlier`, or of all values if there is none.
    fn of(now: &Histogram, earlier: Option<&Histogram>) -> Self {
        let new = match earlier {
            Some(earlier) => now.since(earlier),
            None => now.clone(),
        };
        Self {
            count: new.count(),
            p50_ns: new.quantile(0.5),
            p90_ns: new.quantile(0.9),
            p99_ns: new.quantile(0.99),
        }
    }
}

/// The source of frames.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) command: &'static str,
    pub(crate) device: String,
}

impl Source {
    pub(crate) fn new(command: &'static str, device: &Device) -> Self {
        Self {
            command,
            device: device.properties().name.to_string(),
        }
    }
}

impl Frame {
    /// Computes a frame from a snapshot, and the previous snapshot with the time since then.
    pub(crate) fn new(
        source: &Source,
        now: &Metrics,
        before: Option<(&Metrics, Duration)>,
        uptime: Duration,
        at_ms: u64,
    ) -> Self {
        // The counters of each epoch start at zero.
        let before = before.filter(|(before, _)| before.epoch == now.epoch);
        let rate = |now: u64, count: &dyn Fn(&Metrics) -> u64| {
            let (earlier, since) =
                before.map_or((0, uptime), |(before, since)| (count(before), since));
            now.saturating_sub(earlier) as f64 / since.as_secs_f64().max(1e-9)
        };
        let stats = &now.stats;
        let queues = stats.queues.iter().enumerate().map(|(index, queue)| {
            let earlier = |before: &Metrics| {
                before
                    .stats
                    .queues
                    .get(index)
                    .map_or(0, |queue| queue.busy_ns)
            };
            Queue {
                tasks: queue.tasks,
                depth: queue.in_flight(),
                depth_max: queue.in_flight_max,
                held: queue.held,
                streams: queue.streams,
                busy: (rate(queue.busy_ns, &earlier) / 1e9).min(1.0),
            }
        });
        let faults = now.faults.by_reason().into_iter();
        let faults = faults.filter(|(_, count)| *count > 0);
        let earlier = before.and_then(|(before, _)| before.latencies.as_ref());
        Self {
            command: source.command.to_owned(),
            device: source.device.clone(),
            pid: std::process::id(),
            uptime_s: uptime.as_secs_f64(),
            at_ms,
            is_last: false,
            epoch: now.epoch,
            tasks: stats.tasks,
            tasks_per_second: rate(stats.tasks, &|before| before.stats.tasks),
            launches: stats.launches,
            batches: stats.batches,
            batch_p50: now.batch_sizes.quantile(0.5),
            waits_issued: stats.waits_issued,
            waits_implied: stats.waits_implied,
            streams: stats.streams,
            tasks_held: stats.tasks_held,
            mailbox_depth: now.mailbox_depth,
            mailbox_capacity: now.mailbox_capacity,
            queues: queues.collect(),
            memory: Memory {
                in_use: stats.memory.in_use,
                reserved: stats.memory.reserved,
                waiting: stats.memory.waiting,
                high_water: stats.memory.high_water,
                slices: stats.memory.live_slices,
            },
            faults: faults
                .map(|(reason, count)| (reason.to_owned(), count))
                .collect(),
            slices_poisoned: now.slices_poisoned,
            slices_waiting: now.collection.slices_waiting,
            values_waiting: now.collection.values_waiting,
            latencies: now
                .latencies
                .as_ref()
                .map(|now| latency_quantiles(now, earlier)),
            clients: clients(now),
            clients_total: now.clients.len() as u64,
        }
    }

    /// Sets all rates to zero and keeps the counters, for a device that currently reports nothing.
    pub(crate) fn clear_rates(&mut self) {
        self.tasks_per_second = 0.0;
        self.queues.iter_mut().for_each(|queue| queue.busy = 0.0);
    }
}

fn latency_quantiles(now: &Latencies, earlier: Option<&Latencies>) -> LatencyQuantiles {
    let of = |which: fn(&Latencies) -> &Histogram| Quantiles::of(which(now), earlier.map(which));
    LatencyQuantiles {
        queued: of(|latencies| &latencies.queued_ns),
        runs: of(|latencies| &latencies.runs_ns),
        slices: of(|latencies| &latencies.slice_waits_ns),
        values: of(|latencies| &latencies.value_waits_ns),
    }
}

fn clients(now: &Metrics) -> Vec<Client> {
    let mut clients: Vec<_> = now
        .clients
        .iter()
        .map(|client| Client {
            id: client.client().0,
            name: client.name.to_string(),
            streams: client.streams,
            tasks: client.tasks,
            tasks_held: client.tasks_held,
            in_use: client.memory.in_use,
            high_water: client.memory.high_water,
        })
        .collect();
    clients.sort_by_key(|client| (std::cmp::Reverse(client.in_use), client.id));
    clients.truncate(CLIENTS_MAX);
    clients
}

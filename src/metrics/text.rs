//! A snapshot as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use metrics::{SharedString, Unit};

use super::names::{METRICS, MoreLabel, Source, unit};
use super::{ClientMetrics, Metrics};

/// Returns the counters and gauges of a snapshot as lines of Prometheus' text format, without the label `device`.
/// Counters begin at the last opening of the device. Clients of one name are added up; a client takes its counts with it
/// when it is dropped, so `millstream_client_tasks_total` is of the clients that live ([`Publisher`](super::Publisher) keeps
/// the sums).
///
/// ```
/// use millstream::{Cpu, Device, metrics};
///
/// let device = Device::open(Cpu::default())?;
/// let text = metrics::text(&device.metrics()?);
/// assert!(text.contains("millstream_launches_total 0\n"));
/// assert!(text.contains("millstream_queue_depth{queue=\"0\"} 0\n"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub fn text(metrics: &Metrics) -> String {
    let mut lines = String::new();
    for (name, _, source) in METRICS {
        let values = match source {
            Source::Counter(of) | Source::Gauge(of) => of(metrics),
            Source::ClientTasks => by_client(metrics, |client| client.tasks),
            Source::ClientGauge(of) => by_client(metrics, of),
            Source::Histogram(_) => continue,
        };
        for (label, value) in values {
            add_line(&mut lines, name, label, value);
        }
    }
    lines
}

fn by_client(metrics: &Metrics, of: fn(&ClientMetrics) -> u64) -> Vec<(MoreLabel, u64)> {
    let mut sums = BTreeMap::<&str, u64>::new();
    for client in &metrics.clients {
        *sums.entry(&client.name).or_default() += of(client);
    }
    let labelled = sums.into_iter().map(|(name, sum)| {
        let name = SharedString::from(name.to_owned());
        (Some(("client", name)), sum)
    });
    labelled.collect()
}

fn add_line(lines: &mut String, name: &str, label: MoreLabel, value: u64) {
    let label = label.map_or_else(String::new, |(label, text)| {
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        format!("{{{label}=\"{}\"}}", text.replace('\n', "\\n"))
    });
    // Writing to a string cannot fail.
    let _ = match unit(name) {
        Unit::Seconds => writeln!(lines, "{name}{label} {}", value as f64 * 1e-9),
        _ => writeln!(lines, "{name}{label} {value}"),
    };
}

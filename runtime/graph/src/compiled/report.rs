//! Reports of runs: the items with their times, compared with a roofline.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use millstream_protocol::TraceSpan;

use crate::compiled::CompiledSchedule;
use crate::schedule::item::ItemKind;
use crate::schedule::walk::Local;

/// A report of runs. `Display` writes it as a table.
#[derive(Clone, Debug, Default)]
pub struct RunReport {
    /// The items, in order.
    pub items: Vec<ItemReport>,
    /// The number of complete runs among the spans.
    pub runs: usize,
    /// The limits of the machine, if set.
    pub roofline: Option<Roofline>,
}

/// One item of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ItemReport {
    /// The kind of the item.
    pub kind: ItemKind,
    /// The name of the kernel, as in traces.
    pub kernel: Arc<str>,
    /// The computation as an expression.
    pub expression: String,
    /// The number of bytes of its buffers, each counted once, with every length at its maximum.
    pub bytes: u64,
    /// The approximate number of operations, with every length at its maximum.
    pub flops: u64,
    /// The best time in nanoseconds of the device's clock; `None` without a span.
    pub time_ns: Option<u64>,
}

/// The limits of a machine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Roofline {
    /// The memory bandwidth in bytes per second.
    pub bytes_per_second: f64,
    /// The number of operations per second.
    pub flops_per_second: f64,
}

impl ItemReport {
    /// Returns how close the item is to the roofline, in percent: the longer of the least times for its bytes and its
    /// operations, divided by its time. (Williams, Waterman and Patterson, "Roofline", 2009.)
    pub fn roofline_percent(&self, roofline: &Roofline) -> Option<f64> {
        let seconds = self.time_ns.filter(|time| *time > 0)? as f64 * 1e-9;
        let least = (self.bytes as f64 / roofline.bytes_per_second)
            .max(self.flops as f64 / roofline.flops_per_second);
        Some(100.0 * least / seconds)
    }
}

impl CompiledSchedule {
    /// Returns a report with the times of these spans: those of `Device::trace`, of a device that was opened with a
    /// trace, for runs that did not overlap with others. Without spans there are no times.
    pub fn report(&self, spans: &[TraceSpan]) -> RunReport {
        let steps = &*self.steps;
        let items = steps.items.iter().zip(&self.shared.kernel_names);
        let mut items: Vec<ItemReport> = items
            .map(|(item, kernel)| {
                let storages = item.bindings.iter().map(|node| steps.storage(*node));
                let storages: BTreeSet<Local> = storages.collect();
                let bytes = storages.iter().map(|storage| steps.bytes(*storage));
                let flops = item.flops.max().and_then(|flops| u64::try_from(flops).ok());
                ItemReport {
                    kind: item.kind,
                    kernel: kernel.clone(),
                    expression: item.expression.clone(),
                    bytes: bytes.sum(),
                    flops: flops.unwrap_or(u64::MAX),
                    time_ns: None,
                }
            })
            .collect();
        let runs = add_times(&mut items, spans);
        RunReport {
            items,
            runs,
            roofline: None,
        }
    }
}

/// Finds complete runs among the spans, and sets the best time of each item. Returns the number of runs.
fn add_times(items: &mut [ItemReport], spans: &[TraceSpan]) -> usize {
    let names: Vec<Arc<str>> = items.iter().map(|item| item.kernel.clone()).collect();
    let ours = spans.iter().filter(|span| names.contains(&span.name));
    let ours: Vec<&TraceSpan> = ours.collect();
    let mut runs = 0;
    let mut rest = &ours[..];
    while !names.is_empty() && rest.len() >= names.len() {
        let (run, behind) = rest.split_at(names.len());
        if run.iter().map(|span| &span.name).eq(&names) {
            for (item, span) in items.iter_mut().zip(run) {
                let time = span.end_ns.saturating_sub(span.start_ns);
                item.time_ns = Some(item.time_ns.map_or(time, |known| known.min(time)));
            }
            runs += 1;
            rest = behind;
        } else {
            rest = &rest[1..];
        }
    }
    runs
}

impl RunReport {
    /// Adds the limits of the machine.
    pub fn beside(mut self, roofline: Roofline) -> Self {
        self.roofline = Some(roofline);
        self
    }

    /// Returns the sum of the times in nanoseconds, if all are known.
    pub fn time_ns(&self) -> Option<u64> {
        self.items.iter().map(|item| item.time_ns).sum()
    }
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>3}  {:<15} {:>12} {:>14} {:>11} {:>9}  kernel",
            "", "item", "bytes", "operations", "µs", "roofline"
        )?;
        for (index, item) in self.items.iter().enumerate() {
            let time = item
                .time_ns
                .map_or("-".to_owned(), |time| format!("{:.2}", time as f64 / 1e3));
            let roofline = self.roofline.as_ref();
            let share = roofline.and_then(|roofline| item.roofline_percent(roofline));
            let share = share.map_or("-".to_owned(), |share| format!("{share:.0} %"));
            let (kind, bytes, flops) = (item.kind.name(), item.bytes, item.flops);
            writeln!(
                f,
                "{index:>3}  {kind:<15} {bytes:>12} {flops:>14} {time:>11} {share:>9}  {}",
                item.kernel
            )?;
        }
        Ok(())
    }
}

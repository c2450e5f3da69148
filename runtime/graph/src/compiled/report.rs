//! What a run was made of, and how long each part took, beside what the machine could do.

use std::fmt;
use std::sync::Arc;

use millstream_protocol::report::TraceSpan;

use crate::compiled::CompiledSchedule;
use crate::schedule::item::ItemKind;

/// The parts of a run of a schedule. `Display` is a table.
#[derive(Clone, Debug, Default)]
pub struct RunReport {
    /// One for each item, in order.
    pub items: Vec<ItemReport>,
    /// Runs that were found among the spans.
    pub runs: usize,
    /// What the machine could do, if that was said.
    pub roofline: Option<Roofline>,
}

/// One item of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ItemReport {
    /// What it is.
    pub kind: ItemKind,
    /// The kernel's name, as timelines show it.
    pub kernel: Arc<str>,
    /// What it does.
    pub expression: String,
    /// Bytes of the buffers that it is bound to, each once, with every length at its greatest.
    pub bytes: u64,
    /// Operations on numbers, about, with every length at its greatest.
    pub flops: u64,
    /// How long it took at best, in nanoseconds of the device's clock; none where no span of it was given.
    pub time_ns: Option<u64>,
}

/// What a machine can do at most.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Roofline {
    /// Bytes that it moves in a second.
    pub bytes_per_second: f64,
    /// Operations that it does in a second.
    pub flops_per_second: f64,
}

impl ItemReport {
    /// The share, in percent, that it reached of what the machine can do: the longer of the times that its bytes and its operations
    /// take at least, over the time that it took. (Williams, Waterman and Patterson, "Roofline", 2009.)
    pub fn roofline_percent(&self, roofline: &Roofline) -> Option<f64> {
        let seconds = self.time_ns.filter(|time| *time > 0)? as f64 * 1e-9;
        let least = (self.bytes as f64 / roofline.bytes_per_second)
            .max(self.flops as f64 / roofline.flops_per_second);
        Some(100.0 * least / seconds)
    }
}

impl CompiledSchedule {
    /// The parts of a run, with the times that the spans tell: those of `Device::trace`, of a device that was opened with a trace, for
    /// runs that were made alone. Without spans there are no times.
    pub fn report(&self, spans: &[TraceSpan]) -> RunReport {
        let memory = &self.names.memory;
        let items = self.names.steps.items.iter().zip(&self.shared.kernel_names);
        let mut items: Vec<ItemReport> = items
            .map(|(item, kernel)| {
                let mut storages: Vec<_> = item
                    .bindings
                    .iter()
                    .map(|node| self.names.steps.storage(*node))
                    .collect();
                storages.sort_unstable();
                storages.dedup();
                let bytes = storages
                    .iter()
                    .map(|storage| memory.place(*storage).2)
                    .sum();
                let flops = item.flops.max().and_then(|flops| u64::try_from(flops).ok());
                ItemReport {
                    kind: item.kind,
                    kernel: kernel.clone(),
                    expression: item.expression.clone(),
                    bytes,
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

/// Finds whole runs among the spans, and takes the best time of each item.
fn add_times(items: &mut [ItemReport], spans: &[TraceSpan]) -> usize {
    let names: Vec<Arc<str>> = items.iter().map(|item| item.kernel.clone()).collect();
    let ours: Vec<&TraceSpan> = spans
        .iter()
        .filter(|span| names.contains(&span.name))
        .collect();
    let mut runs = 0;
    let mut rest = &ours[..];
    while !names.is_empty() && rest.len() >= names.len() {
        let (run, behind) = rest.split_at(names.len());
        if run
            .iter()
            .zip(&names)
            .all(|(span, name)| span.name == *name)
        {
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
    /// The same beside what the machine can do.
    pub fn beside(mut self, roofline: Roofline) -> Self {
        self.roofline = Some(roofline);
        self
    }

    /// The sum of the times, in nanoseconds, if all are known.
    pub fn time_ns(&self) -> Option<u64> {
        self.items.iter().map(|item| item.time_ns).sum()
    }
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>3}  {:<15} {:>12} {:>14} {:>11} {:>9}  kernel",
            "", "item", "bytes", "operations", "us", "roofline"
        )?;
        for (index, item) in self.items.iter().enumerate() {
            let time = item
                .time_ns
                .map_or("-".to_owned(), |time| format!("{:.2}", time as f64 / 1e3));
            let share = self
                .roofline
                .as_ref()
                .and_then(|roofline| item.roofline_percent(roofline));
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

//! Every row with its target, in output order.

use millstream_harness::{Limit, RecordRow, median};

/// The target of our figure in a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    Of(Limit),
    /// At most this multiple of the reference in the same run.
    AtMostOfReference(f64),
}

/// A row of the table: one figure of a probe.
pub(crate) struct Row {
    pub(crate) measure: &'static str,
    pub(crate) unit: &'static str,
    /// The name of the probe; `figure` is the name of one of its figures.
    pub(crate) probe: &'static str,
    pub(crate) figure: &'static str,
    target: Option<Target>,
}

impl Row {
    /// Returns the row with its samples, of ours, the peer and the reference.
    pub(crate) fn recorded(&self, samples: Vec<Vec<f64>>, failures: Vec<String>) -> RecordRow {
        let limit = self.target.and_then(|target| match target {
            Target::Of(limit) => Some(limit),
            Target::AtMostOfReference(share) => {
                let reference = samples.get(2).filter(|samples| !samples.is_empty())?;
                Some(Limit::AtMost(median(reference) * share))
            }
        });
        RecordRow {
            measure: self.measure.to_owned(),
            unit: self.unit.to_owned(),
            limit,
            samples,
            failures,
        }
    }
}

const NONE: Option<Target> = None;

fn at_most(limit: f64) -> Option<Target> {
    Some(Target::Of(Limit::AtMost(limit)))
}

fn at_least(limit: f64) -> Option<Target> {
    Some(Target::Of(Limit::AtLeast(limit)))
}

fn of_reference(share: f64) -> Option<Target> {
    Some(Target::AtMostOfReference(share))
}

/// Returns the row of a figure; `source` is `probe/figure`.
fn row(measure: &'static str, source: &'static str, target: Option<Target>) -> Row {
    let (probe, figure) = source.split_once('/').unwrap_or((source, ""));
    Row {
        measure,
        unit: unit_of(figure),
        probe,
        figure,
        target,
    }
}

fn unit_of(figure: &'static str) -> &'static str {
    match figure {
        "caller_ns" | "both_ns" => "ns",
        "p50_us" | "p99_us" => "us",
        "million_per_s" => "million/s",
        "cpu_percent" => "% of a core",
        "wake_ups" => "1/s",
        // Other figures are named by their unit.
        unit => unit,
    }
}

macro_rules! rows {
    ($($measure:literal: $source:literal, $target:expr;)*) => {
        vec![$(row($measure, $source, $target)),*]
    };
}

/// Returns every row.
pub(crate) fn rows() -> Vec<Row> {
    rows! {
        "launch, no arguments, caller's side": "launch-bare/caller_ns", at_most(60.0);
        "launch, no arguments, both sides": "launch-bare/both_ns", NONE;
        "launch, 3 buffers + 8 words, caller's side": "launch-scalars/caller_ns", at_most(150.0);
        "launch, 3 buffers + 8 words, both sides": "launch-scalars/both_ns", NONE;
        "launch, no arguments, instructions": "instructions-bare/instructions", at_most(500.0);
        "launch, 3 buffers + 8 words, instructions": "instructions-scalars/instructions", at_most(900.0);
        // The limit is above zero, because a list may grow now and then.
        "launch, no arguments, heap allocations": "allocations-bare/allocations", at_most(0.001);
        "launch, 3 buffers + 8 words, heap allocations": "allocations-scalars/allocations", at_most(0.001);
        "launch, recorded and replayed, per task": "replay/ns", at_most(20.0);
        "launch, 3 buffers, recorded and replayed": "replay-three/ns", at_most(20.0);
        "2 client threads, all together": "threads-2/million_per_s", at_least(8.0);
        "4 client threads, all together": "threads-4/million_per_s", at_least(8.0);
        "8 client threads, all together": "threads-8/million_per_s", at_least(8.0);
        "one core, 1 client thread, per launch": "one-core-1/caller_ns", at_most(300.0);
        "one core, 4 client threads, per launch": "one-core-4/ns", at_most(300.0);
        "sync, busy, p50": "sync-busy/p50_us", at_most(0.4);
        "4-byte read, busy, p50": "read-busy/p50_us", at_most(0.6);
        "sync after 5 ms idle, p50": "sync-idle/p50_us", of_reference(0.7);
        "sync after 5 ms idle, p99": "sync-idle/p99_us", of_reference(1.0);
        "submit to start, device parked, p50": "start-parked/p50_us", of_reference(1.2);
        "submit to start, device parked, p99": "start-parked/p99_us", of_reference(1.2);
        "submit to start, device awake, p50": "start-awake/p50_us", at_most(0.5);
        "1,000 launches a second, device thread": "thousand/cpu_percent", at_most(3.0);
        // The limit is above zero, because the two clocks of this figure differ a little.
        "idle device thread": "idle/cpu_percent", at_most(0.01);
        "idle device thread, wake-ups": "idle/wake_ups", at_most(0.0);
        "a live stream": "bytes-stream/bytes", at_most(1024.0);
        "a live slice": "bytes-buffer/bytes", at_most(256.0);
        "a queued task": "bytes-task/bytes", at_most(512.0);
        "allocate, use, drop 1 KiB, 0 live": "allocate-0/ns", at_most(300.0);
        "allocate, use, drop 1 KiB, 100 live": "allocate-100/ns", at_most(300.0);
        "allocate, use, drop 1 KiB, 1,000 live": "allocate-1000/ns", at_most(300.0);
        "allocate, use, drop 1 KiB, 10,000 live": "allocate-10000/ns", at_most(300.0);
        "allocate, use, drop, heap allocations": "allocations-buffer/allocations", at_most(0.001);
        "hazards of a task, 3 bindings, one queue": "hazards-own-3/ns", at_most(25.0);
        "hazards, 1 binding of another queue, synced": "hazards-other-1/ns", at_most(200.0);
        "hazards, 3 bindings of another queue, synced": "hazards-other-3/ns", at_most(200.0);
        "scheduler per task, Interleave, batch 1": "interleave-1/ns", at_most(30.0);
        "scheduler per task, Interleave, batch 8": "interleave-8/ns", at_most(10.0);
        "scheduler per task, Interleave, batch 64": "interleave-64/ns", at_most(8.0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::probe::probes;

    #[test]
    fn every_row_has_a_probe_and_every_probe_a_row() {
        let probes: BTreeSet<_> = probes().iter().map(|probe| probe.name).collect();
        let used: BTreeSet<_> = rows().iter().map(|row| row.probe).collect();
        assert_eq!(probes, used);
    }

    #[test]
    fn a_target_relative_to_the_reference_moves_with_it() {
        let row = row("m", "p/ns", of_reference(0.5));
        for (reference, is_reached) in [(10.0, true), (6.0, false)] {
            let samples = vec![vec![4.0], vec![8.0], vec![reference]];
            let recorded = row.recorded(samples, Vec::new());
            assert_eq!(recorded.is_reached(), Some(is_reached));
        }
    }

    #[test]
    fn names_of_rows_are_unique() {
        let names: BTreeSet<_> = rows().iter().map(|row| row.measure).collect();
        assert_eq!(names.len(), rows().len());
    }
}

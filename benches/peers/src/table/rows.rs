//! Every row, in the order in which they are printed, with what ours must reach.

use super::Row;
use super::Target::{self, AtLeast, AtMost, AtMostOfReference};

/// A row of one figure, `probe/figure`.
fn row(measure: &'static str, source: &'static str, target: Target) -> Row {
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
        "recorded" | "waited" => "events",
        // The others are named as what they count.
        unit => unit,
    }
}

/// Every row.
pub(crate) fn rows() -> Vec<Row> {
    [
        launches(),
        answers(),
        upkeep(),
        memory(),
        streams(),
        behaviour(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn launches() -> Vec<Row> {
    let none = Target::None;
    // A list that grows now and then is no allocation per launch.
    let no_allocation = AtMost(0.001);
    vec![
        row(
            "launch, no arguments, caller's side",
            "launch-bare/caller_ns",
            AtMost(60.0),
        ),
        row(
            "launch, no arguments, both sides",
            "launch-bare/both_ns",
            none,
        ),
        row(
            "launch, 3 buffers + 8 words, caller's side",
            "launch-scalars/caller_ns",
            AtMost(150.0),
        ),
        row(
            "launch, 3 buffers + 8 words, both sides",
            "launch-scalars/both_ns",
            none,
        ),
        row(
            "launch, no arguments, instructions",
            "instructions-bare/instructions",
            AtMost(500.0),
        ),
        row(
            "launch, 3 buffers + 8 words, instructions",
            "instructions-scalars/instructions",
            AtMost(900.0),
        ),
        row(
            "launch, no arguments, heap allocations",
            "launch-bare/allocations",
            no_allocation,
        ),
        row(
            "launch, 3 buffers, heap allocations",
            "launch-three/allocations",
            no_allocation,
        ),
        row(
            "launch, 3 buffers + 8 words, heap allocations",
            "launch-scalars/allocations",
            no_allocation,
        ),
        row(
            "launch, recorded and replayed, per task",
            "replay/ns",
            AtMost(20.0),
        ),
        row(
            "launch, 3 buffers, recorded and replayed",
            "replay-three/ns",
            AtMost(20.0),
        ),
        row(
            "2 client threads, all together",
            "threads-2/million_per_s",
            AtLeast(8.0),
        ),
        row(
            "4 client threads, all together",
            "threads-4/million_per_s",
            AtLeast(8.0),
        ),
        row(
            "8 client threads, all together",
            "threads-8/million_per_s",
            AtLeast(8.0),
        ),
        // Computing threads take half of the time or more; a collapse is a matter of tens.
        row(
            "4 client threads, every core computing",
            "threads-4-loaded/million_per_s",
            AtLeast(1.0),
        ),
        row(
            "one core, 1 client thread, per launch",
            "one-core-1/caller_ns",
            AtMost(300.0),
        ),
        row(
            "one core, 4 client threads, per launch",
            "one-core-4/ns",
            AtMost(300.0),
        ),
    ]
}

fn answers() -> Vec<Row> {
    let none = Target::None;
    vec![
        row("sync, busy, p50", "sync-busy/p50_us", AtMost(0.4)),
        row("sync, busy, p99", "sync-busy/p99_us", none),
        row(
            "sync, busy, heap allocations",
            "sync-busy/allocations",
            none,
        ),
        row("4-byte read, busy, p50", "read-busy/p50_us", AtMost(0.6)),
        row("4-byte read, busy, p99", "read-busy/p99_us", none),
        row(
            "4-byte read, busy, heap allocations",
            "read-busy/allocations",
            none,
        ),
        row(
            "sync after 5 ms idle, p50",
            "sync-idle/p50_us",
            AtMostOfReference(0.7),
        ),
        row(
            "sync after 5 ms idle, p99",
            "sync-idle/p99_us",
            AtMostOfReference(1.0),
        ),
        row(
            "submit to start, device parked, p50",
            "start-parked/p50_us",
            AtMostOfReference(1.2),
        ),
        row(
            "submit to start, device parked, p99",
            "start-parked/p99_us",
            AtMostOfReference(1.2),
        ),
        row(
            "submit to start, device awake, p50",
            "start-awake/p50_us",
            AtMost(0.5),
        ),
        row(
            "submit to start, device awake, p99",
            "start-awake/p99_us",
            none,
        ),
    ]
}

fn upkeep() -> Vec<Row> {
    vec![
        row(
            "1,000 launches a second, device thread",
            "thousand/cpu_percent",
            AtMost(3.0),
        ),
        // The two clocks that tell it differ by a little.
        row("idle device thread", "idle/cpu_percent", AtMost(0.01)),
        row("idle device thread, wake-ups", "idle/wake_ups", AtMost(0.0)),
        row("a live stream", "bytes-stream/bytes", AtMost(1024.0)),
        row("a live slice", "bytes-buffer/bytes", AtMost(256.0)),
        row("a queued task", "bytes-task/bytes", AtMost(512.0)),
    ]
}

fn memory() -> Vec<Row> {
    vec![
        row(
            "allocate, use, drop 1 KiB, 0 live",
            "allocate-0/ns",
            AtMost(300.0),
        ),
        row(
            "allocate, use, drop 1 KiB, 100 live",
            "allocate-100/ns",
            AtMost(300.0),
        ),
        row(
            "allocate, use, drop 1 KiB, 1,000 live",
            "allocate-1000/ns",
            AtMost(300.0),
        ),
        row(
            "allocate, use, drop 1 KiB, 10,000 live",
            "allocate-10000/ns",
            AtMost(300.0),
        ),
        row(
            "allocate, use, drop, heap allocations",
            "allocate-100/allocations",
            AtMost(0.001),
        ),
        row(
            "66,000 live buffers, unresolvable",
            "live-66000/buffers",
            AtMost(0.0),
        ),
        row(
            "1,000,000 live buffers, unresolvable",
            "live-1000000/buffers",
            AtMost(0.0),
        ),
    ]
}

fn streams() -> Vec<Row> {
    vec![
        row(
            "hazards of a task, 3 bindings, one queue",
            "hazards-own-3/ns",
            AtMost(25.0),
        ),
        row(
            "hazards, 1 binding of another queue, synced",
            "hazards-other-1/ns",
            AtMost(200.0),
        ),
        row(
            "hazards, 3 bindings of another queue, synced",
            "hazards-other-3/ns",
            AtMost(200.0),
        ),
        row(
            "hazards, 1 of another queue, events recorded",
            "hazards-other-1/recorded",
            AtMost(0.0),
        ),
        row(
            "hazards, 1 of another queue, events waited",
            "hazards-other-1/waited",
            AtMost(0.0),
        ),
        row(
            "cross-stream launches accepted, event held",
            "held/launches",
            AtLeast(10_000.0),
        ),
        row(
            "scheduler per task, Interleave, batch 1",
            "interleave-1/ns",
            AtMost(30.0),
        ),
        row(
            "scheduler per task, Interleave, batch 8",
            "interleave-8/ns",
            AtMost(10.0),
        ),
        row(
            "scheduler per task, Interleave, batch 64",
            "interleave-64/ns",
            AtMost(8.0),
        ),
        row(
            "scheduler per task, Sequential, batch 1",
            "sequential-1/ns",
            AtMost(30.0),
        ),
        row(
            "scheduler per task, Sequential, batch 8",
            "sequential-8/ns",
            AtMost(10.0),
        ),
        row(
            "scheduler per task, Sequential, batch 64",
            "sequential-64/ns",
            AtMost(8.0),
        ),
    ]
}

fn behaviour() -> Vec<Row> {
    vec![
        row(
            "1 launch without a flush, begun",
            "flushless-1/launches",
            AtLeast(1.0),
        ),
        row(
            "31 launches without a flush, begun",
            "flushless-31/launches",
            AtLeast(31.0),
        ),
        row(
            "B writes A's buffer, A reads: stale of 20",
            "stale/reads",
            AtMost(0.0),
        ),
        row(
            "a device panic, reported by flush, sync, read",
            "panic/reports",
            AtLeast(1.0),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::rows;
    use crate::probe::probes;

    #[test]
    fn every_row_has_a_probe_and_every_probe_a_row() {
        let probes: BTreeSet<_> = probes().iter().map(|probe| probe.name).collect();
        let used: BTreeSet<_> = rows().iter().map(|row| row.probe).collect();
        assert_eq!(
            probes.difference(&used).collect::<Vec<_>>(),
            Vec::<&&str>::new()
        );
        assert_eq!(
            used.difference(&probes).collect::<Vec<_>>(),
            Vec::<&&str>::new()
        );
    }

    #[test]
    fn names_of_rows_are_unique() {
        let names: BTreeSet<_> = rows().iter().map(|row| row.measure).collect();
        assert_eq!(names.len(), rows().len());
    }
}

//! What is measured: each row takes one sample at a time, so that all of them take turns and a machine that becomes slower does so
//! for all.

use std::rc::Rc;

use millstream_harness::Better;
use serde::{Deserialize, Serialize};

use super::load::{Load, Sample, Why};
use super::rig::Rig;
use super::samples::{
    batch, download, graph_step, hand_over, idle_wait, implied, launch, lookup, memory, replayed,
    there_and_back, throughput, upload, wait,
};

/// What a figure counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Unit {
    #[serde(rename = "ns")]
    Nanoseconds,
    #[serde(rename = "us")]
    Microseconds,
    #[serde(rename = "million/s")]
    MillionPerSecond,
    #[serde(rename = "tasks")]
    Tasks,
    #[serde(rename = "%")]
    Percent,
    /// Copies of the same bytes by `memcpy`, between memory of the host that both were in use before.
    #[serde(rename = "copies")]
    Copies,
}

impl Unit {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
            Self::MillionPerSecond => "million/s",
            Self::Tasks => "tasks",
            Self::Percent => "%",
            Self::Copies => "copies",
        }
    }

    pub(super) fn better(self) -> Better {
        match self {
            Self::Nanoseconds | Self::Microseconds | Self::Copies => Better::Lower,
            Self::MillionPerSecond | Self::Tasks | Self::Percent => Better::Higher,
        }
    }

    fn row(self, name: &str, sample: Sample) -> Row {
        Row {
            name: name.to_owned(),
            unit: self,
            threads: None,
            sample,
        }
    }
}

/// A thing that is measured.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) unit: Unit,
    /// How many threads launch, in the rows that are a curve over that.
    pub(super) threads: Option<usize>,
    pub(super) sample: Sample,
}

/// What cannot be measured here.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LeftOut {
    pub(super) name: String,
    pub(super) reason: String,
}

/// All rows, for up to so many threads, and what there is not.
pub(super) fn all(rig: &Rc<Rig>, load: Load, threads: usize) -> (Vec<Row>, Vec<LeftOut>) {
    use Unit::{Copies, Microseconds, MillionPerSecond, Nanoseconds, Percent, Tasks};
    let mut rows = vec![
        Nanoseconds.row("a launch, caller's side", launch(rig, load)),
        Microseconds.row("a launch and the wait for it", wait(rig, load)),
        Microseconds.row("the same after 1 ms of idling", idle_wait(rig, load)),
    ];
    rows.extend(counts(threads).map(|threads| Row {
        threads: Some(threads),
        ..MillionPerSecond.row(&from_threads(threads), throughput(rig, load, threads))
    }));
    rows.extend([
        Tasks.row("tasks of a batch, one thread", batch(rig, load)),
        Nanoseconds.row("a task of a recording, replayed", replayed(rig, load)),
        Nanoseconds.row("a task after another stream's", hand_over(rig, load)),
        Percent.row("hazards of two streams, no wait", implied(rig, load)),
        Nanoseconds.row("memory taken and given back", memory(rig, load)),
    ]);
    for (size, bytes) in [("4 KiB", 4 << 10), ("4 MiB", 4 << 20)] {
        let name = format!("{size} there and back");
        rows.push(Microseconds.row(&name, there_and_back(rig, load, bytes)));
    }
    for mib in [1, 4, 64] {
        let name = |what| format!("{mib} MiB {what}, in warm copies");
        rows.extend([
            Copies.row(&name("up"), upload(rig, mib << 20)),
            Copies.row(&name("down"), download(rig, mib << 20)),
        ]);
    }
    let mut left_out = Vec::new();
    let mut late = |unit: Unit, name: &str, made: Result<Sample, Why>| match made {
        Ok(sample) => rows.push(unit.row(name, sample)),
        Err(why) => left_out.push(LeftOut {
            name: name.to_owned(),
            reason: why.to_string(),
        }),
    };
    let step = graph_step(rig, load);
    late(Microseconds, "a step of a graph and its answer", step);
    late(Nanoseconds, "a known key of the tuner", lookup(rig, load));
    (rows, left_out)
}

/// 1, 2, 4 and so on, and the most.
fn counts(most: usize) -> impl Iterator<Item = usize> {
    let doubled = std::iter::successors(Some(1), |count| Some(count * 2));
    doubled.take_while(move |count| *count < most).chain([most])
}

fn from_threads(threads: usize) -> String {
    match threads {
        1 => "launches, one thread".to_owned(),
        _ => format!("launches, {threads} threads"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_doubled_up_to_the_most() {
        let of = |most| counts(most).collect::<Vec<_>>();
        assert_eq!(of(1), [1]);
        assert_eq!(of(2), [1, 2]);
        assert_eq!(of(6), [1, 2, 4, 6]);
        assert_eq!(of(8), [1, 2, 4, 8]);
    }
}

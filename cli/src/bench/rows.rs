//! The rows of the report. Each takes one sample at a time, so that rows can take turns and a slowdown of the
//! machine affects all of them.

use std::rc::Rc;

use millstream_harness::Better;
use serde::{Deserialize, Serialize};

use super::load::{Load, Sample, SampleError};
use super::rig::Rig;
use super::samples::{
    allocate, batch, download, graph_step, hand_over, idle_wait, implied, launch, lookup, replayed,
    round_trip, throughput, upload, wait,
};

/// The unit of a figure.
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
    /// The time of a `memcpy` of the same bytes between host buffers that have been touched before.
    #[serde(rename = "copies")]
    Copies,
}

impl Unit {
    /// Returns the unit as text and pictures show it. JSON has the serialized names above.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Microseconds => "µs",
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

/// A row of the report: an operation and the function that measures it.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) unit: Unit,
    /// The number of launching threads, in rows that vary it.
    pub(super) threads: Option<usize>,
    pub(super) sample: Sample,
}

/// A row that cannot be measured here.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LeftOut {
    pub(super) name: String,
    pub(super) reason: String,
}

/// Returns all rows for up to `threads` threads, and the rows that cannot be measured.
pub(super) fn all(rig: &Rc<Rig>, load: Load, threads: usize) -> (Vec<Row>, Vec<LeftOut>) {
    use Unit::{Copies, Microseconds, MillionPerSecond, Nanoseconds, Percent, Tasks};
    let mut rows = vec![
        Nanoseconds.row("launch, caller's side", launch(rig, load)),
        Microseconds.row("launch and wait", wait(rig, load)),
        Microseconds.row("launch and wait after 1 ms idle", idle_wait(rig, load)),
    ];
    rows.extend(thread_counts(threads).map(|threads| Row {
        threads: Some(threads),
        ..MillionPerSecond.row(&throughput_name(threads), throughput(rig, load, threads))
    }));
    rows.extend([
        Tasks.row("batch size, 1 thread", batch(rig, load)),
        Nanoseconds.row("replay, per recorded task", replayed(rig, load)),
        Nanoseconds.row("task after another stream's task", hand_over(rig, load)),
        Percent.row("hazards without a wait, 2 streams", implied(rig, load)),
        Nanoseconds.row("allocate and drop", allocate(rig, load)),
    ]);
    for (size, bytes) in [("4 KiB", 4 << 10), ("4 MiB", 4 << 20)] {
        let name = format!("{size} round trip");
        rows.push(Microseconds.row(&name, round_trip(rig, load, bytes)));
    }
    for mib in [1, 4, 64] {
        let name = |operation| format!("{mib} MiB {operation}, in warm copies");
        rows.extend([
            Copies.row(&name("upload"), upload(rig, mib << 20)),
            Copies.row(&name("download"), download(rig, mib << 20)),
        ]);
    }
    let mut left_out = Vec::new();
    let mut optional = |unit: Unit, name: &str, made: Result<Sample, SampleError>| match made {
        Ok(sample) => rows.push(unit.row(name, sample)),
        Err(error) => left_out.push(LeftOut {
            name: name.to_owned(),
            reason: error.to_string(),
        }),
    };
    let step = graph_step(rig, load);
    optional(Microseconds, "graph step and readback", step);
    optional(Nanoseconds, "tuner lookup, known key", lookup(rig, load));
    (rows, left_out)
}

/// Returns the powers of two below `most`, then `most`.
fn thread_counts(most: usize) -> impl Iterator<Item = usize> {
    let doubled = std::iter::successors(Some(1), |count| Some(count * 2));
    doubled.take_while(move |count| *count < most).chain([most])
}

fn throughput_name(threads: usize) -> String {
    match threads {
        1 => "launches, 1 thread".to_owned(),
        _ => format!("launches, {threads} threads"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_counts_double_up_to_the_maximum() {
        let of = |most| thread_counts(most).collect::<Vec<_>>();
        assert_eq!(of(1), [1]);
        assert_eq!(of(2), [1, 2]);
        assert_eq!(of(6), [1, 2, 4, 6]);
        assert_eq!(of(8), [1, 2, 4, 8]);
    }
}

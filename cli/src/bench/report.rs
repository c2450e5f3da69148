//! A run as data, as `--json` prints it and `--compare` reads it, and what is told of two of them.

use std::fs;
use std::path::{Path, PathBuf};

use millstream::Device;
use millstream_harness::{Figure, Verdict};
use serde::{Deserialize, Serialize};

use super::rows::{LeftOut, Unit};
use crate::exit::CommandError;

/// What the command has to say.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) version: String,
    pub(super) exit_code: u8,
    pub(super) device: DeviceFacts,
    pub(super) quick: bool,
    /// Figures of a debug build are of no use but to try the command.
    pub(super) debug_build: bool,
    /// What all of it took.
    pub(super) seconds: f64,
    pub(super) rows: Vec<Measured>,
    pub(super) left_out: Vec<LeftOut>,
    #[serde(skip_deserializing)]
    pub(super) compared: Option<Comparison>,
}

/// What was measured on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct DeviceFacts {
    pub(super) backend: String,
    pub(super) name: String,
    pub(super) queues: usize,
    pub(super) threads: usize,
}

impl DeviceFacts {
    pub(super) fn of(device: &Device) -> Self {
        let properties = device.properties();
        Self {
            backend: properties.backend.to_owned(),
            name: properties.name.clone(),
            queues: properties.queues,
            threads: properties.compute_units,
        }
    }
}

/// A row, and what its samples came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) name: String,
    pub(super) unit: Unit,
    /// How many threads launch, in the rows that are a curve over that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) threads: Option<usize>,
    #[serde(flatten)]
    pub(super) figure: Figure,
}

/// This run beside an earlier one.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    pub(super) file: PathBuf,
    /// Figures of other devices, builds or loads do not compare.
    pub(super) differs: Vec<&'static str>,
    pub(super) changes: Vec<Change>,
    /// Rows of this run that the earlier one does not have.
    pub(super) only_here: Vec<String>,
}

/// A row of both runs.
#[derive(Debug, Serialize)]
pub(super) struct Change {
    pub(super) name: String,
    pub(super) before: f64,
    /// This run's median to the earlier one's.
    pub(super) ratio: f64,
    /// The spreads of both, added: what the ratio may be off by chance.
    pub(super) noise: f64,
    pub(super) verdict: Verdict,
}

impl Comparison {
    pub(super) fn of(now: &Report, before: &Report, file: &Path) -> Self {
        let settings = [
            ("device", now.device == before.device),
            ("build", now.debug_build == before.debug_build),
            ("load", now.quick == before.quick),
        ];
        let mut only_here = Vec::new();
        let mut changes = Vec::new();
        for row in &now.rows {
            let same = |other: &&Measured| other.name == row.name && other.unit == row.unit;
            match before.rows.iter().find(same) {
                Some(before) => changes.push(Change::of(row, &before.figure)),
                None => only_here.push(row.name.clone()),
            }
        }
        Self {
            file: file.to_owned(),
            differs: settings
                .into_iter()
                .filter(|(_, same)| !same)
                .map(|(what, _)| what)
                .collect(),
            changes,
            only_here,
        }
    }
}

impl Change {
    fn of(row: &Measured, before: &Figure) -> Self {
        let now = &row.figure;
        let ratio = match before.median == now.median {
            true => 1.0, // also of two that are nothing
            false => now.median / before.median,
        };
        Self {
            name: row.name.clone(),
            before: before.median,
            ratio,
            noise: now.spread() + before.spread(),
            verdict: Verdict::of(now, before, row.unit.better()),
        }
    }
}

/// The report of an earlier run.
pub(super) fn read(path: &Path) -> Result<Report, CommandError> {
    let text = fs::read(path).map_err(|source| CommandError::BenchUnreadable {
        path: path.to_owned(),
        source,
    })?;
    let report: Report = serde_json::from_slice(&text).map_err(|source| CommandError::NoBench {
        path: path.to_owned(),
        source,
    })?;
    match report.rows.iter().find(|row| !row.figure.is_sound()) {
        None => Ok(report),
        Some(row) => Err(CommandError::BenchUnsound {
            path: path.to_owned(),
            row: row.name.clone(),
        }),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn sample(launch: &[f64]) -> Report {
        let row = |name: &str, unit, threads, samples: &[f64]| Measured {
            name: name.to_owned(),
            unit,
            threads,
            figure: Figure::of(samples).unwrap(),
        };
        let million = Unit::MillionPerSecond;
        Report {
            version: "0.1.0".into(),
            exit_code: 0,
            device: DeviceFacts {
                backend: "cpu".into(),
                name: "a <processor>".into(),
                queues: 2,
                threads: 4,
            },
            quick: false,
            debug_build: false,
            seconds: 3.25,
            rows: vec![
                row("a launch, caller's side", Unit::Nanoseconds, None, launch),
                row("launches, one thread", million, Some(1), &[2.0, 2.5, 3.0]),
                row("launches, 2 threads", million, Some(2), &[4.0, 4.5, 5.0]),
            ],
            left_out: vec![LeftOut {
                name: "a step of a graph and its answer".into(),
                reason: "no compiler".into(),
            }],
            compared: None,
        }
    }

    #[test]
    fn what_is_printed_is_what_is_read() {
        let report = sample(&[30.0, 31.0, 32.0]);
        let path =
            std::env::temp_dir().join(format!("millstream-bench-{}.json", std::process::id()));
        fs::write(&path, serde_json::to_vec(&report).unwrap()).unwrap();
        let again = read(&path).unwrap();
        fs::remove_file(path).unwrap();
        assert_eq!(
            serde_json::to_value(&again).unwrap(),
            serde_json::to_value(&report).unwrap()
        );
    }

    #[test]
    fn a_comparison_tells_changes_by_name_and_what_is_not_the_same() {
        let (mut now, mut before) = (sample(&[60.0, 62.0, 64.0]), sample(&[30.0, 31.0, 32.0]));
        let same = Comparison::of(&now, &before, Path::new("old.json"));
        assert_eq!((same.differs.len(), same.only_here.len()), (0, 0));
        let launch = &same.changes[0];
        assert_eq!(
            (launch.before, launch.ratio, launch.verdict),
            (31.0, 2.0, Verdict::Worse)
        );
        assert!((launch.noise - (2.0 / 62.0 + 1.0 / 31.0)).abs() < 1e-9);
        assert_eq!(same.changes[1].verdict, Verdict::WithinNoise);
        assert_eq!(same.changes[1].ratio, 1.0);
        before.device.queues = 4;
        now.debug_build = true;
        before.rows.remove(1);
        let other = Comparison::of(&now, &before, Path::new("old.json"));
        assert_eq!(other.differs, ["device", "build"]);
        assert_eq!(other.only_here, ["launches, one thread"]);
    }
}

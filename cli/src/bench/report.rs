//! A run as data, which `--json` prints and `--compare` reads, and the comparison of two runs.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::exit::{CommandError, FileRole};

/// The result of one run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) version: String,
    pub(super) exit_code: u8,
    pub(super) device: DeviceFacts,
    pub(super) quick: bool,
    /// Whether this is a debug build, whose figures have no meaning.
    pub(super) debug_build: bool,
    /// How long the whole run took.
    pub(super) seconds: f64,
    pub(super) rows: Vec<Measured>,
    #[serde(skip_deserializing)]
    pub(super) compared: Option<Comparison>,
}

/// The device of a run.
#[derive(PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct DeviceFacts {
    pub(super) backend: String,
    pub(super) name: String,
    pub(super) queues: usize,
    pub(super) threads: usize,
}

/// A row and its figures.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) name: String,
    pub(super) unit: String,
    /// The number of launching threads, in rows that vary it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) threads: Option<usize>,
    #[serde(flatten)]
    pub(super) summary: Summary,
}

/// Order statistics of samples. Each is one of the samples, so that those of counts are counts.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Summary {
    pub(super) median: f64,
    pub(super) lower_quartile: f64,
    pub(super) upper_quartile: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) samples: usize,
}

impl Summary {
    /// Returns the summary of the samples, or `None` if there are none. A quartile between two samples is the one that
    /// is further from the median, so that a few samples do not look more certain than they are.
    pub(super) fn of(mut samples: Vec<f64>) -> Option<Self> {
        samples.sort_by(f64::total_cmp);
        let last = samples.len().checked_sub(1)?;
        Some(Self {
            median: samples[last.div_ceil(2)],
            lower_quartile: samples[last / 4],
            upper_quartile: samples[(3 * last).div_ceil(4)],
            min: samples[0],
            max: samples[last],
            samples: samples.len(),
        })
    }

    /// Returns half of the distance between the quartiles, as a share of the median; 0 if the median is 0.
    pub(super) fn spread(&self) -> f64 {
        match self.median {
            0.0 => 0.0,
            median => (self.upper_quartile - self.lower_quartile) / 2.0 / median,
        }
    }

    /// Whether non-negative samples can have this summary.
    fn is_sound(&self) -> bool {
        let Self {
            median,
            lower_quartile,
            upper_quartile,
            min,
            max,
            samples,
        } = *self;
        let ordered = [0.0, min, lower_quartile, median, upper_quartile, max];
        samples > 0 && max.is_finite() && ordered.is_sorted()
    }
}

/// A comparison of this run with an earlier one.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    pub(super) file: PathBuf,
    /// The settings that differ. If there are any, the figures are not comparable.
    pub(super) differs: Vec<&'static str>,
    pub(super) changes: Vec<Change>,
    /// The rows that the earlier run does not have.
    only_here: Vec<String>,
}

/// The change of a row between two runs.
#[derive(Debug, Serialize)]
pub(super) struct Change {
    pub(super) name: String,
    pub(super) before: f64,
    /// The median of this run divided by that of the earlier run.
    pub(super) ratio: f64,
    /// The sum of both spreads: the ratio may be off by this much by chance.
    pub(super) noise: f64,
    pub(super) verdict: Verdict,
}

/// Whether a figure is better than before. It is within the noise if the quartiles overlap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Better,
    Worse,
    WithinNoise,
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
                Some(before) => changes.push(Change::of(row, &before.summary)),
                None => only_here.push(row.name.clone()),
            }
        }
        let differs = settings.iter().filter(|(_, same)| !same);
        Self {
            file: file.to_owned(),
            differs: differs.map(|(what, _)| *what).collect(),
            changes,
            only_here,
        }
    }
}

impl Change {
    fn of(row: &Measured, before: &Summary) -> Self {
        let now = &row.summary;
        let is_time = ["ns", "us", "copies"].contains(&&*row.unit);
        let lower = now.upper_quartile < before.lower_quartile;
        let higher = now.lower_quartile > before.upper_quartile;
        let ratio = match before.median == now.median {
            true => 1.0, // also if both are 0
            false => now.median / before.median,
        };
        Self {
            name: row.name.clone(),
            before: before.median,
            ratio,
            noise: now.spread() + before.spread(),
            verdict: match (lower, higher) {
                (false, false) => Verdict::WithinNoise,
                _ if lower == is_time => Verdict::Better,
                _ => Verdict::Worse,
            },
        }
    }
}

/// Reads the report of an earlier run.
pub(super) fn read(path: &Path) -> Result<Report, CommandError> {
    let role = FileRole::new(
        "bench report",
        path,
        "name a file that `millstream bench --json > FILE.json` wrote with --compare",
    );
    let text = fs::read(path).map_err(|source| role.unreadable(source))?;
    let report: Report = serde_json::from_slice(&text).map_err(|source| role.wrong(source))?;
    match report.rows.iter().find(|row| !row.summary.is_sound()) {
        None => Ok(report),
        Some(Measured { name, .. }) => {
            Err(role.wrong(format!("the figures of `{name}` are inconsistent")))
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn sample(launch: &[f64]) -> Report {
        let row = |name: &str, unit: &str, threads, samples: &[f64]| Measured {
            name: name.to_owned(),
            unit: unit.to_owned(),
            threads,
            summary: Summary::of(samples.to_vec()).unwrap(),
        };
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
                row("launch, caller's side", "ns", None, launch),
                row("launches, 1 thread", "million/s", Some(1), &[2.0, 2.5, 3.0]),
                row(
                    "launches, 2 threads",
                    "million/s",
                    Some(2),
                    &[4.0, 4.5, 5.0],
                ),
            ],
            compared: None,
        }
    }

    #[test]
    fn quartile_between_two_samples_is_the_one_further_from_the_median() {
        let summary = Summary::of(vec![4.0, 2.0, 3.0, 1.0]).unwrap();
        assert_eq!((summary.lower_quartile, summary.upper_quartile), (1.0, 4.0));
        assert_eq!(summary.median, 3.0);
        assert_eq!(Summary::of(Vec::new()), None);
    }

    #[test]
    fn comparison_matches_rows_by_name_and_lists_differing_settings() {
        let (mut now, mut before) = (sample(&[60.0, 62.0, 64.0]), sample(&[30.0, 31.0, 32.0]));
        let same = Comparison::of(&now, &before, Path::new("old.json"));
        assert_eq!((same.differs.len(), same.only_here.len()), (0, 0));
        let launch = &same.changes[0];
        assert_eq!((launch.before, launch.ratio), (31.0, 2.0));
        assert_eq!(launch.verdict, Verdict::Worse);
        assert!((launch.noise - (2.0 / 62.0 + 1.0 / 31.0)).abs() < 1e-9);
        assert_eq!(same.changes[1].verdict, Verdict::WithinNoise);
        before.device.queues = 4;
        now.debug_build = true;
        before.rows.remove(1);
        let other = Comparison::of(&now, &before, Path::new("old.json"));
        assert_eq!(other.differs, ["device", "build"]);
        assert_eq!(other.only_here, ["launches, 1 thread"]);
        // A rate that halves is worse, as a time that doubles.
        let mut faster = sample(&[60.0, 62.0, 64.0]);
        faster.rows[1].summary = Summary::of(vec![5.0, 5.0]).unwrap();
        let changes = Comparison::of(&now, &faster, Path::new("old.json")).changes;
        assert_eq!(changes[1].verdict, Verdict::Worse);
    }
}

//! A run as data, which `--json` prints and `--compare` reads, and the comparison of two runs.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::exit::{CommandError, FileRole};

/// The result of one run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) device: DeviceFacts,
    pub(super) quick: bool,
    /// Whether this is a debug build, whose figures have no meaning.
    pub(super) debug_build: bool,
    /// How long the whole run took.
    pub(super) seconds: f64,
    pub(super) rows: Vec<Measured>,
    #[serde(skip_deserializing)]
    pub(super) compared: Option<Compared>,
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
    /// The change since the earlier run, if that has this row.
    #[serde(skip_deserializing)]
    pub(super) change: Option<Change>,
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
        let (low, high) = (self.lower_quartile, self.upper_quartile);
        let ordered = [0.0, self.min, low, self.median, high, self.max];
        self.samples > 0 && self.max.is_finite() && ordered.is_sorted()
    }
}

/// The earlier run that this one is compared with.
#[derive(Debug, Serialize)]
pub(super) struct Compared {
    pub(super) file: PathBuf,
    /// The settings that differ. If there are any, the figures are not comparable.
    pub(super) differs: Vec<&'static str>,
}

/// The change of a row between two runs.
#[derive(Debug, Serialize)]
pub(super) struct Change {
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

impl Report {
    /// Adds the change of each row since an earlier run, which was read from a file.
    pub(super) fn compare(&mut self, before: &Self, file: &Path) {
        for row in &mut self.rows {
            let same = |other: &&Measured| other.name == row.name && other.unit == row.unit;
            let before = before.rows.iter().find(same);
            row.change = before.map(|before| row.change_since(&before.summary));
        }
        let settings = [
            ("device", self.device == before.device),
            ("build", self.debug_build == before.debug_build),
            ("load", self.quick == before.quick),
        ];
        let differs = settings.iter().filter(|(_, same)| !same);
        self.compared = Some(Compared {
            file: file.to_owned(),
            differs: differs.map(|(what, _)| *what).collect(),
        });
    }
}

impl Measured {
    fn change_since(&self, before: &Summary) -> Change {
        let now = &self.summary;
        let is_time = ["ns", "us", "copies"].contains(&&*self.unit);
        let lower = now.upper_quartile < before.lower_quartile;
        let higher = now.lower_quartile > before.upper_quartile;
        Change {
            before: before.median,
            ratio: match before.median == now.median {
                true => 1.0, // also if both are 0
                false => now.median / before.median,
            },
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
    let text = fs::read(path).map_err(|source| role.cannot_be("read", source))?;
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
            change: None,
        };
        Report {
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
        let compared = |mut now: Report, before: &Report| {
            now.compare(before, Path::new("old.json"));
            now
        };
        let now = || sample(&[60.0, 62.0, 64.0]);
        let mut before = sample(&[30.0, 31.0, 32.0]);
        let same = compared(now(), &before);
        assert!(same.compared.unwrap().differs.is_empty());
        let changes: Vec<_> = same
            .rows
            .iter()
            .map(|row| row.change.as_ref().unwrap())
            .collect();
        assert_eq!((changes[0].before, changes[0].ratio), (31.0, 2.0));
        assert_eq!(changes[0].verdict, Verdict::Worse);
        assert!((changes[0].noise - (2.0 / 62.0 + 1.0 / 31.0)).abs() < 1e-9);
        assert_eq!(changes[1].verdict, Verdict::WithinNoise);
        // A rate that halves is worse, as a time that doubles.
        before.rows[2].summary = Summary::of(vec![9.0, 9.0]).unwrap();
        before.device.queues = 4;
        before.debug_build = true;
        before.rows.remove(1);
        let other = compared(now(), &before);
        assert_eq!(other.compared.unwrap().differs, ["device", "build"]);
        assert!(other.rows[1].change.is_none());
        assert_eq!(
            other.rows[2].change.as_ref().unwrap().verdict,
            Verdict::Worse
        );
    }
}

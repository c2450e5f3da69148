//! The results of a run: its rows and its environment, as `--json` writes them and `import` reads them.

use millstream_harness::{Better, Limit, Summary};
use serde::{Deserialize, Serialize};

/// The version of the file format. Increase it if older files would be misread.
pub(crate) const FORMAT: u32 = 3;

/// The results of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) format: u32,
    pub(crate) device: String,
    /// The GPU's compute capability, or its version of Vulkan.
    pub(crate) capability: String,
    /// The driver, with the newest CUDA version that it supports.
    pub(crate) driver: String,
    pub(crate) memory_bytes: u64,
    /// Whether the driver is the fake, whose figures are meaningless.
    pub(crate) fake: bool,
    pub(crate) processor: String,
    pub(crate) cores: usize,
    /// The date of the run, in UTC.
    pub(crate) date: String,
    pub(crate) command: String,
    pub(crate) version: String,
    pub(crate) quick: bool,
    pub(crate) rounds: usize,
    pub(crate) rows: Vec<Row>,
}

/// The target for our side.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    /// The ratio of our figure to the raw one is at least this.
    OfRaw(f64),
    /// Our figure is at most this.
    AtMost(f64),
}

impl Target {
    /// Returns the limit of the ratio or of our figure.
    pub(crate) fn limit(self) -> Limit {
        match self {
            Self::OfRaw(share) => Limit::AtLeast(share),
            Self::AtMost(most) => Limit::AtMost(most),
        }
    }
}

/// A row of the table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) measure: String,
    pub(crate) unit: String,
    pub(crate) better: Better,
    pub(crate) raw: Option<Summary>,
    pub(crate) ours: Option<Summary>,
    /// Our performance relative to raw: above 1 is better, in any unit.
    pub(crate) ratio: Option<f64>,
    pub(crate) target: Option<Target>,
    pub(crate) reached: Option<bool>,
    /// The error, if the row could not be measured.
    pub(crate) failure: Option<String>,
}

impl Row {
    /// Creates a row without figures.
    pub(crate) fn new(measure: impl Into<String>, unit: &str, better: Better) -> Self {
        Self {
            measure: measure.into(),
            unit: unit.to_owned(),
            better,
            raw: None,
            ours: None,
            ratio: None,
            target: None,
            reached: None,
            failure: None,
        }
    }

    /// Creates the row of a group that could not be measured.
    pub(crate) fn failed(group: &str, why: &dyn std::error::Error) -> Self {
        Self {
            failure: Some(why.to_string()),
            ..Self::new(group, "", Better::Lower)
        }
    }

    pub(crate) fn raw(mut self, summary: Summary) -> Self {
        self.raw = Some(summary);
        self
    }

    pub(crate) fn ours(mut self, summary: Summary) -> Self {
        self.ours = Some(summary);
        self
    }

    pub(crate) fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    /// Computes the ratio and whether the target is reached.
    pub(crate) fn judged(mut self) -> Self {
        let medians = self.raw.zip(self.ours);
        self.ratio = medians.and_then(|(raw, ours)| self.better.gain(ours.median, raw.median));
        self.reached = self.target.and_then(|target| {
            let value = match target {
                Target::OfRaw(_) => self.ratio,
                Target::AtMost(_) => self.ours.map(|ours| ours.median),
            };
            Some(target.limit().holds(value?))
        });
        self
    }
}

impl Report {
    /// Returns the number of reached targets and the number of all measured ones.
    pub(crate) fn reached(&self) -> (usize, usize) {
        let judged = self.rows.iter().filter_map(|row| row.reached);
        judged.fold((0, 0), |(reached, all), row| {
            (reached + usize::from(row), all + 1)
        })
    }

    /// Returns the name and the error of each row that could not be measured.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (&str, &str)> {
        let failure = |row: &'_ Row| row.failure.is_some();
        let failed = self.rows.iter().filter(move |row| failure(row));
        failed.map(|row| {
            let why = row.failure.as_deref().unwrap_or_default();
            (row.measure.as_str(), why)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(better: Better, raw: f64, ours: f64) -> Row {
        let summary = |value| Summary::of(&[value]).unwrap();
        Row::new("a", "b", better)
            .raw(summary(raw))
            .ours(summary(ours))
            .target(Target::OfRaw(0.95))
            .judged()
    }

    #[test]
    fn a_ratio_above_one_is_better_than_raw_whatever_the_unit() {
        let slower = row(Better::Lower, 90.0, 100.0);
        assert_eq!((slower.ratio, slower.reached), (Some(0.9), Some(false)));
        let more = row(Better::Higher, 100.0, 110.0);
        assert_eq!((more.ratio, more.reached), (Some(1.1), Some(true)));
    }

    #[test]
    fn a_limit_is_judged_without_a_raw_figure() {
        let mut idle = row(Better::Lower, 0.0, 0.0);
        assert_eq!((idle.ratio, idle.reached), (None, None));
        idle.target = Some(Target::AtMost(0.1));
        assert_eq!(idle.judged().reached, Some(true));
    }
}

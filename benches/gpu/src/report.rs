//! What a run says: its rows and their circumstances, as `--json` writes them and `import` reads them.

use millstream_harness::{Better, Figure, Limit};
use serde::{Deserialize, Serialize};

/// Changed whenever a reader of the file would take something wrongly.
pub(crate) const FORMAT: u32 = 2;

/// A run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) format: u32,
    pub(crate) device: String,
    /// Its compute capability.
    pub(crate) capability: String,
    /// The newest CUDA that the driver serves.
    pub(crate) driver: String,
    pub(crate) memory_bytes: u64,
    /// It is the fake driver's: figures mean nothing.
    pub(crate) fake: bool,
    pub(crate) processor: String,
    pub(crate) cores: usize,
    /// The day it was, UTC.
    pub(crate) date: String,
    pub(crate) command: String,
    pub(crate) version: String,
    pub(crate) quick: bool,
    pub(crate) rounds: usize,
    pub(crate) rows: Vec<Row>,
}

/// What ours must reach.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    /// So many times as good as raw.
    OfRaw(f64),
    AtMost(f64),
}

impl Target {
    /// The limit by itself: of the ratio, or of ours.
    pub(crate) fn limit(self) -> Limit {
        match self {
            Self::OfRaw(share) => Limit::AtLeast(share),
            Self::AtMost(most) => Limit::AtMost(most),
        }
    }
}

/// A line of the table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) measure: String,
    pub(crate) unit: String,
    pub(crate) better: Better,
    pub(crate) raw: Option<Figure>,
    pub(crate) ours: Option<Figure>,
    /// How good ours is, raw being 1: more is better, whatever the unit.
    pub(crate) ratio: Option<f64>,
    pub(crate) target: Option<Target>,
    pub(crate) reached: Option<bool>,
    /// Why there are no figures.
    pub(crate) failure: Option<String>,
}

impl Row {
    /// A row without figures.
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

    /// What a group came to that did not come out.
    pub(crate) fn failed(group: &str, why: &dyn std::error::Error) -> Self {
        Self {
            failure: Some(why.to_string()),
            ..Self::new(group, "", Better::Lower)
        }
    }

    pub(crate) fn raw(mut self, figure: Figure) -> Self {
        self.raw = Some(figure);
        self
    }

    pub(crate) fn ours(mut self, figure: Figure) -> Self {
        self.ours = Some(figure);
        self
    }

    pub(crate) fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    /// Computes the ratio, and whether the target is reached.
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
    /// How many targets were reached, of how many that were measured.
    pub(crate) fn reached(&self) -> (usize, usize) {
        let judged = self.rows.iter().filter_map(|row| row.reached);
        judged.fold((0, 0), |(reached, all), row| {
            (reached + usize::from(row), all + 1)
        })
    }

    /// Rows that did not come out.
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
        let figure = |value| Figure::of(&[value]).unwrap();
        Row::new("a", "b", better)
            .raw(figure(raw))
            .ours(figure(ours))
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
    fn a_limit_needs_no_raw_side() {
        let mut idle = row(Better::Lower, 0.0, 0.0);
        assert_eq!((idle.ratio, idle.reached), (None, None));
        idle.target = Some(Target::AtMost(0.1));
        assert_eq!(idle.judged().reached, Some(true));
    }
}

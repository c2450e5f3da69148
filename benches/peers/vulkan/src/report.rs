//! The results of a run: rows, printed as a table, or written as JSON.

use std::fmt;

use millstream_harness::{Better, Limit, Summary, Table, digits_or_dash};
use serde::{Serialize, Serializer};

use crate::measure::Rig;

/// The most times that our cost may be of the raw side's.
const OF_RAW_MAX: f64 = 1.15;

/// The results of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    device: String,
    driver: String,
    cores: usize,
    command: String,
    rounds: usize,
    pub(crate) rows: Vec<Row>,
}

/// The goal of a row, a limit of a ratio.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    of: Side,
    limit: Limit,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Raw,
    Peer,
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.of {
            Side::Raw => "raw",
            Side::Peer => "wgpu",
        };
        write!(f, "{} {side}", self.limit)
    }
}

impl Serialize for Goal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A row of the table.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    measure: String,
    unit: &'static str,
    better: Better,
    ours: Option<Summary>,
    raw: Option<Summary>,
    peer: Option<Summary>,
    goal: Option<Goal>,
}

impl Row {
    /// Creates a row of costs, of which less is better. The goal is at most 1.15 times the raw side's.
    pub(crate) fn cost(measure: impl Into<String>, unit: &'static str, ours: Summary) -> Self {
        Self {
            measure: measure.into(),
            unit,
            better: Better::Lower,
            ours: Some(ours),
            raw: None,
            peer: None,
            goal: Some(Goal {
                of: Side::Raw,
                limit: Limit::AtMost(OF_RAW_MAX),
            }),
        }
    }

    /// Creates a row of costs of the raw side alone, without a goal.
    pub(crate) fn raw_only(measure: impl Into<String>, unit: &'static str, raw: Summary) -> Self {
        Self {
            ours: None,
            raw: Some(raw),
            goal: None,
            ..Self::cost(measure, unit, raw)
        }
    }

    /// Creates a row of rates, of which more is better. The goal is at least the raw side's.
    pub(crate) fn rate(measure: impl Into<String>, unit: &'static str, ours: Summary) -> Self {
        Self {
            better: Better::Higher,
            goal: Some(Goal {
                of: Side::Raw,
                limit: Limit::AtLeast(1.0),
            }),
            ..Self::cost(measure, unit, ours)
        }
    }

    pub(crate) fn raw(mut self, raw: Summary) -> Self {
        self.raw = Some(raw);
        self
    }

    pub(crate) fn peer(mut self, peer: Summary) -> Self {
        self.peer = Some(peer);
        self
    }

    /// Makes it the goal to be at least `times` the peer's rate.
    pub(crate) fn at_least_of_peer(mut self, times: f64) -> Self {
        self.goal = Some(Goal {
            of: Side::Peer,
            limit: Limit::AtLeast(times),
        });
        self
    }

    /// Returns our figure divided by that of another side: by medians, and by the best samples.
    fn ratios(&self, other: Option<Summary>) -> [Option<f64>; 2] {
        let best = |summary: Summary| match self.better {
            Better::Lower => summary.min,
            Better::Higher => summary.max,
        };
        let divide = |figure: &dyn Fn(Summary) -> f64| {
            let other = other.map(figure).filter(|other| *other > 0.0)?;
            Some(figure(self.ours?) / other)
        };
        [divide(&|of| of.median), divide(&best)]
    }

    fn verdict(&self) -> (String, &'static str) {
        let Some(goal) = self.goal else {
            return Default::default();
        };
        let Goal { of, limit } = goal;
        let other = match of {
            Side::Raw => self.raw,
            Side::Peer => self.peer,
        };
        let verdict = match self.ratios(other) {
            [Some(median), _] if limit.holds(median) => "reached",
            [_, Some(best)] if limit.holds(best) => "best only",
            [Some(_), _] => "missed",
            _ => return Default::default(),
        };
        (goal.to_string(), verdict)
    }
}

impl Report {
    pub(crate) fn new(rig: &Rig) -> Self {
        Self {
            device: rig.seen.name.clone(),
            driver: rig.seen.driver.clone(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            command: std::env::args().skip(1).collect::<Vec<_>>().join(" "),
            rounds: rig.rounds,
            rows: Vec::new(),
        }
    }

    /// Formats the table for a terminal.
    pub(crate) fn text(&self) -> String {
        let header = [
            "measure",
            "unit",
            "millstream",
            "raw",
            "wgpu",
            "/ raw",
            "best / raw",
            "/ wgpu",
            "goal",
            "",
        ];
        let mut table = Table::new(header, 2..8);
        for row in &self.rows {
            let median = |summary: Option<Summary>| digits_or_dash(summary.map(|of| of.median));
            let times = |ratio: Option<f64>| {
                ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
            };
            let ([of_raw, best], [of_peer, _]) = (row.ratios(row.raw), row.ratios(row.peer));
            let (goal, verdict) = row.verdict();
            table.row([
                row.measure.clone(),
                row.unit.to_owned(),
                median(row.ours),
                median(row.raw),
                median(row.peer),
                times(of_raw),
                times(best),
                times(of_peer),
                goal,
                verdict.to_owned(),
            ]);
        }
        let Self {
            device,
            driver,
            cores,
            rounds,
            ..
        } = self;
        format!(
            "{device}, {driver}, {cores} cores; medians of {rounds} rounds; \"best\" compares the best samples\n\n{}",
            table.text()
        )
    }
}

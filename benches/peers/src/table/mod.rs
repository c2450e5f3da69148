//! The rows: their figures, their targets, and their output.
//!
//! - [`rows`]: every row with its target.
//! - [`print`] and [`print_json`]: the table, and one JSON object per row.

mod report;
mod rows;

use millstream_harness::{Limit, Summary};
pub(crate) use report::{print, print_json};
pub(crate) use rows::rows;
use serde::Serialize;

/// The target of our figure in a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// No target.
    None,
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
    pub(crate) target: Target,
}

/// One side of a row: the figure of its rounds, or the reason why there is none.
#[derive(Default)]
pub(crate) struct Cell {
    pub(crate) summary: Option<Summary>,
    pub(crate) failure: Option<String>,
}

impl Cell {
    fn median(&self) -> Option<f64> {
        self.summary.map(|summary| summary.median)
    }

    /// Returns the least and the greatest value of all rounds.
    fn range(&self) -> Option<[f64; 2]> {
        self.summary.map(|summary| [summary.min, summary.max])
    }
}

/// A row with its figures, as `--json` prints it.
#[derive(Serialize)]
pub(crate) struct RowResult {
    measure: &'static str,
    unit: &'static str,
    ours: Option<f64>,
    peer: Option<f64>,
    /// Our figure divided by the peer's.
    ratio: Option<f64>,
    /// The standard library's figure in the same run, if there is one.
    reference: Option<f64>,
    #[serde(skip)]
    limit: Option<Limit>,
    at_most: Option<f64>,
    at_least: Option<f64>,
    /// Whether our figure reached its target; null if the figure or the target is missing.
    reached: Option<bool>,
    ours_range: Option<[f64; 2]>,
    peer_range: Option<[f64; 2]>,
    reference_range: Option<[f64; 2]>,
    /// The reasons of the samples that failed.
    failures: Vec<String>,
}

impl Row {
    /// Returns the row with the figures of the sides.
    pub(crate) fn result(&self, ours: Cell, peer: Cell, reference: Cell) -> RowResult {
        let limit = match self.target {
            Target::None => None,
            Target::Of(limit) => Some(limit),
            Target::AtMostOfReference(share) => {
                let value = reference.median();
                value.map(|value| Limit::AtMost(value * share))
            }
        };
        let (at_most, at_least) = match limit {
            None => (None, None),
            Some(Limit::AtMost(limit)) => (Some(limit), None),
            Some(Limit::AtLeast(limit)) => (None, Some(limit)),
        };
        let median = ours.median();
        let sides = [("ours", &ours), ("peer", &peer), ("reference", &reference)];
        let failures = sides.into_iter().filter_map(|(side, cell)| {
            cell.failure
                .as_ref()
                .map(|failure| format!("{side}: {failure}"))
        });
        RowResult {
            measure: self.measure,
            unit: self.unit,
            failures: failures.collect(),
            ours: median,
            peer: peer.median(),
            // A division by zero has no ratio.
            ratio: median
                .zip(peer.median())
                .map(|(ours, peer)| ours / peer)
                .filter(|ratio| ratio.is_finite()),
            reference: reference.median(),
            limit,
            at_most,
            at_least,
            reached: limit.zip(median).map(|(limit, value)| limit.holds(value)),
            ours_range: ours.range(),
            peer_range: peer.range(),
            reference_range: reference.range(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(value: f64) -> Cell {
        Cell {
            summary: Summary::of(&[value]),
            failure: None,
        }
    }

    fn row(target: Target) -> Row {
        Row {
            measure: "m",
            unit: "ns",
            probe: "p",
            figure: "f",
            target,
        }
    }

    #[test]
    fn a_target_relative_to_the_reference_moves_with_it() {
        let row = row(Target::AtMostOfReference(0.5));
        assert_eq!(
            row.result(cell(4.0), cell(8.0), cell(10.0)).reached,
            Some(true)
        );
        assert_eq!(
            row.result(cell(4.0), cell(8.0), cell(6.0)).reached,
            Some(false)
        );
    }

    #[test]
    fn without_ours_nothing_is_reached_or_missed() {
        let result =
            row(Target::Of(Limit::AtMost(1.0))).result(Cell::default(), cell(2.0), Cell::default());
        assert_eq!((result.reached, result.ratio), (None, None));
    }

    #[test]
    fn nothing_over_nothing_has_no_ratio() {
        let result =
            row(Target::Of(Limit::AtMost(0.0))).result(cell(0.0), cell(0.0), Cell::default());
        assert_eq!((result.reached, result.ratio), (Some(true), None));
    }
}

//! The rows: what they show, what they must reach, and how they are printed.
//!
//! - [`rows`]: every row with its target.
//! - [`print`] and [`print_json`]: the table, and one JSON object a row.

mod report;
mod rows;

pub(crate) use report::{print, print_json};
pub(crate) use rows::rows;
use serde::Serialize;

/// What a row of ours must reach.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// Shown for its own sake.
    None,
    AtMost(f64),
    AtLeast(f64),
    /// At most so many times the reference in the same run.
    AtMostOfReference(f64),
}

/// One line: a figure of a probe.
pub(crate) struct Row {
    pub(crate) measure: &'static str,
    pub(crate) unit: &'static str,
    /// The probe's name, and which of its figures.
    pub(crate) probe: &'static str,
    pub(crate) figure: &'static str,
    pub(crate) target: Target,
}

/// One side of a row: the median of its rounds, or why there is none.
#[derive(Default)]
pub(crate) struct Cell {
    pub(crate) value: Option<f64>,
    /// The least and the most of all rounds.
    pub(crate) range: Option<[f64; 2]>,
    pub(crate) failure: Option<String>,
}

/// A row with its figures, as `--json` prints it.
#[derive(Serialize)]
pub(crate) struct RowResult {
    measure: &'static str,
    unit: &'static str,
    ours: Option<f64>,
    peer: Option<f64>,
    /// Ours over the peer's.
    ratio: Option<f64>,
    /// The standard library's figure in the same run, where there is one.
    reference: Option<f64>,
    at_most: Option<f64>,
    at_least: Option<f64>,
    /// Whether ours reached its target; null without either.
    reached: Option<bool>,
    ours_range: Option<[f64; 2]>,
    peer_range: Option<[f64; 2]>,
    reference_range: Option<[f64; 2]>,
    /// Samples that yielded nothing, and why.
    failures: Vec<String>,
}

impl Row {
    /// The row with what the sides reached.
    pub(crate) fn result(&self, ours: Cell, peer: Cell, reference: Cell) -> RowResult {
        let at_most = match self.target {
            Target::AtMost(limit) => Some(limit),
            Target::AtMostOfReference(share) => reference.value.map(|value| value * share),
            Target::AtLeast(_) | Target::None => None,
        };
        let at_least = match self.target {
            Target::AtLeast(limit) => Some(limit),
            _ => None,
        };
        let reached = ours.value.and_then(|value| match (at_most, at_least) {
            (Some(limit), _) => Some(value <= limit),
            (None, Some(limit)) => Some(value >= limit),
            (None, None) => None,
        });
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
            ours: ours.value,
            peer: peer.value,
            // A zero over a zero, or over anything by zero, has no ratio.
            ratio: ours
                .value
                .zip(peer.value)
                .map(|(ours, peer)| ours / peer)
                .filter(|r| r.is_finite()),
            reference: reference.value,
            at_most,
            at_least,
            reached,
            ours_range: ours.range,
            peer_range: peer.range,
            reference_range: reference.range,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(value: f64) -> Cell {
        Cell {
            value: Some(value),
            range: Some([value; 2]),
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
        let result = row(Target::AtMost(1.0)).result(Cell::default(), cell(2.0), Cell::default());
        assert_eq!((result.reached, result.ratio), (None, None));
    }

    #[test]
    fn nothing_over_nothing_has_no_ratio() {
        let result = row(Target::AtMost(0.0)).result(cell(0.0), cell(0.0), Cell::default());
        assert_eq!((result.reached, result.ratio), (Some(true), None));
    }
}

//! Rows of the record: the samples of ours and of the raw side, and the limit of ours.

use millstream_harness::{Limit, RecordRow, median};

/// The samples of a side, one for each round.
pub(crate) type Samples = Vec<f64>;

/// Returns a row of both sides, without a limit.
pub(crate) fn row(measure: impl Into<String>, unit: &str, [raw, ours]: [Samples; 2]) -> RecordRow {
    RecordRow {
        measure: measure.into(),
        unit: unit.to_owned(),
        limit: None,
        samples: vec![ours, raw],
        failures: Vec::new(),
    }
}

/// Returns a row that only the raw side has.
pub(crate) fn raw_row(measure: impl Into<String>, unit: &str, raw: Samples) -> RecordRow {
    row(measure, unit, [raw, Samples::new()])
}

/// Returns a row of times. Ours is at most the raw one divided by `share`.
pub(crate) fn times(
    measure: impl Into<String>,
    unit: &str,
    sides: [Samples; 2],
    share: f64,
) -> RecordRow {
    RecordRow {
        limit: Some(Limit::AtMost(median(&sides[0]) / share)),
        ..row(measure, unit, sides)
    }
}

/// Returns a row of rates. Ours is at least this share of the raw one.
pub(crate) fn rates(
    measure: impl Into<String>,
    unit: &str,
    sides: [Samples; 2],
    share: f64,
) -> RecordRow {
    RecordRow {
        limit: Some(Limit::AtLeast(median(&sides[0]) * share)),
        ..row(measure, unit, sides)
    }
}

/// Returns the row of a group that could not be measured.
pub(crate) fn failed(group: &str, why: &dyn std::error::Error) -> RecordRow {
    let mut row = row(group, "", [Samples::new(), Samples::new()]);
    row.failures.push(why.to_string());
    row
}

pub(crate) fn in_us(ns: Samples) -> Samples {
    ns.into_iter().map(|ns| ns / 1e3).collect()
}

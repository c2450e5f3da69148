//! Limits of figures.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digits;

/// A bound that a figure must keep, in the figure's unit.
///
/// ```
/// use millstream_harness::Limit;
///
/// assert!(Limit::AtMost(0.5).holds(0.4));
/// assert_eq!(Limit::AtLeast(8.0).to_string(), ">= 8");
/// ```
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The figure is at most this value.
    AtMost(f64),
    /// The figure is at least this value.
    AtLeast(f64),
}

impl Limit {
    /// Returns the value of the limit.
    pub fn value(self) -> f64 {
        match self {
            Self::AtMost(limit) | Self::AtLeast(limit) => limit,
        }
    }

    /// Returns `true` if `value` keeps the limit.
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }
}

/// Writes the limit with three significant digits, or with fewer if it has fewer.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self {
            Self::AtMost(_) => "<=",
            Self::AtLeast(_) => ">=",
        };
        let (exact, rounded) = (self.value().to_string(), digits(self.value()));
        let short = if exact.len() < rounded.len() {
            exact
        } else {
            rounded
        };
        write!(f, "{sign} {short}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_holds_at_its_own_value_and_never_for_nan() {
        assert!(Limit::AtMost(2.0).holds(2.0) && !Limit::AtMost(2.0).holds(2.1));
        assert!(Limit::AtLeast(2.0).holds(2.0) && !Limit::AtLeast(2.0).holds(1.9));
        assert!(!Limit::AtMost(2.0).holds(f64::NAN) && !Limit::AtLeast(2.0).holds(f64::NAN));
    }

    #[test]
    fn limit_has_at_most_three_significant_digits() {
        let texts = [0.01, 60.0, 16.123_45, 10_000.0].map(|limit| Limit::AtMost(limit).to_string());
        assert_eq!(texts, ["<= 0.01", "<= 60", "<= 16.1", "<= 10000"]);
    }
}

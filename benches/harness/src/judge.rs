//! Comparisons: which figures are good, what can be told of a change, and what a figure must reach.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Figure, digits};

/// Which of two figures is the better one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// The lower one: a time, a count of allocations.
    Lower,
    /// The higher one: a rate.
    Higher,
}

impl Better {
    /// How many times as good `value` is as `other`; above 1 is better, whatever the unit. `None` if that is no finite number, as of
    /// two zeros.
    pub fn gain(self, value: f64, other: f64) -> Option<f64> {
        let gain = match self {
            Self::Lower => other / value,
            Self::Higher => value / other,
        };
        gain.is_finite().then_some(gain)
    }
}

/// What can be told of a change between two runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The later run is better.
    Better,
    /// The later run is worse.
    Worse,
    /// The quartiles of both runs overlap: another run may say the opposite.
    WithinNoise,
}

impl Verdict {
    /// Compares a figure with that of an earlier run.
    pub fn of(now: &Figure, before: &Figure, better: Better) -> Self {
        let lower = now.upper_quartile < before.lower_quartile;
        let higher = now.lower_quartile > before.upper_quartile;
        match (lower, higher) {
            (false, false) => Self::WithinNoise,
            (lower, _) if lower == (better == Better::Lower) => Self::Better,
            _ => Self::Worse,
        }
    }

    /// The verdict as it stands in a table.
    pub fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::WithinNoise => "within noise",
        }
    }
}

/// What a figure must reach, in the figure's unit.
///
/// ```
/// use millstream_harness::Limit;
///
/// assert!(Limit::AtMost(0.5).holds(0.4));
/// assert_eq!(Limit::AtLeast(8.0).to_string(), ">= 8");
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Limit {
    /// This or less.
    AtMost(f64),
    /// This or more.
    AtLeast(f64),
}

impl Limit {
    /// The limit as a number.
    pub fn value(self) -> f64 {
        match self {
            Self::AtMost(limit) | Self::AtLeast(limit) => limit,
        }
    }

    /// Whether the value reaches the limit.
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }
}

/// With three digits, or as few as it has.
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
    fn a_gain_above_one_is_better_whatever_the_unit() {
        assert_eq!(Better::Lower.gain(100.0, 90.0), Some(0.9));
        assert_eq!(Better::Higher.gain(110.0, 100.0), Some(1.1));
        assert_eq!(Better::Lower.gain(0.0, 0.0), None);
        assert_eq!(Better::Higher.gain(1.0, 0.0), None);
    }

    #[test]
    fn a_change_is_told_only_where_the_quartiles_are_apart() {
        let of = |samples: &[f64]| Figure::of(samples).unwrap();
        let (low, high) = (of(&[1.0, 1.1, 1.2]), of(&[2.0, 2.1, 2.2]));
        let wide = of(&[1.0, 1.5, 2.1]);
        for (now, before, better, verdict) in [
            (low, high, Better::Lower, Verdict::Better),
            (low, high, Better::Higher, Verdict::Worse),
            (high, low, Better::Higher, Verdict::Better),
            (high, low, Better::Lower, Verdict::Worse),
            (wide, high, Better::Lower, Verdict::WithinNoise),
            (low, low, Better::Lower, Verdict::WithinNoise),
        ] {
            assert_eq!(Verdict::of(&now, &before, better), verdict);
        }
    }

    #[test]
    fn a_limit_holds_at_its_own_value() {
        assert!(Limit::AtMost(2.0).holds(2.0) && !Limit::AtMost(2.0).holds(2.1));
        assert!(Limit::AtLeast(2.0).holds(2.0) && !Limit::AtLeast(2.0).holds(1.9));
        assert!(!Limit::AtMost(2.0).holds(f64::NAN) && !Limit::AtLeast(2.0).holds(f64::NAN));
    }

    #[test]
    fn limits_have_few_digits() {
        let said = [0.01, 60.0, 16.123_45, 10_000.0].map(|limit| Limit::AtMost(limit).to_string());
        assert_eq!(said, ["<= 0.01", "<= 60", "<= 16.1", "<= 10000"]);
    }
}

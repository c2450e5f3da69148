//! Figures: the median of some samples, how far they lie apart, and what is told from another run's.

use serde::{Deserialize, Serialize};

/// What the samples of a row came to, in its unit.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) median: f64,
    pub(crate) lower_quartile: f64,
    pub(crate) upper_quartile: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    pub(crate) samples: usize,
}

impl Figure {
    /// Of no samples: none. Quantiles are samples, so that counts stay counts; of two that a quartile lies between it is the one
    /// further out, so that few samples are not told as surer than they are.
    pub(crate) fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        Some(Self {
            median: sorted[last.div_ceil(2)],
            lower_quartile: sorted[last / 4],
            upper_quartile: sorted[(3 * last).div_ceil(4)],
            least: sorted[0],
            most: sorted[last],
            samples: sorted.len(),
        })
    }

    /// Half of the distance between the quartiles, as a share of the median: half of the samples lie nearer.
    pub(crate) fn spread(&self) -> f64 {
        match self.median {
            0.0 => 0.0,
            median => (self.upper_quartile - self.lower_quartile) / 2.0 / median,
        }
    }

    /// Is it one that samples can come to?
    pub(crate) fn is_sound(&self) -> bool {
        let ordered = [
            0.0,
            self.least,
            self.lower_quartile,
            self.median,
            self.upper_quartile,
            self.most,
        ];
        self.samples > 0
            && self.most.is_finite()
            && ordered.windows(2).all(|pair| pair[0] <= pair[1])
    }
}

/// What is the better of two figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Better {
    Less,
    More,
}

/// What can be told of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Better,
    Worse,
    /// The quartiles of both runs overlap: another run may say the opposite.
    WithinNoise,
}

impl Verdict {
    /// Of a figure and that of an earlier run.
    pub(crate) fn of(now: &Figure, before: &Figure, better: Better) -> Self {
        let less = now.upper_quartile < before.lower_quartile;
        let more = now.lower_quartile > before.upper_quartile;
        match (less, more) {
            (false, false) => Self::WithinNoise,
            (less, _) if less == (better == Better::Less) => Self::Better,
            _ => Self::Worse,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::WithinNoise => "within noise",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples_and_the_spread_is_between_the_quartiles() {
        let figure = Figure::of(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!((figure.median, figure.least, figure.most), (3.0, 1.0, 5.0));
        assert_eq!((figure.lower_quartile, figure.upper_quartile), (2.0, 4.0));
        assert!((figure.spread() - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(Figure::of(&[]), None);
        assert_eq!(Figure::of(&[0.0; 3]).unwrap().spread(), 0.0);
        assert!(figure.is_sound());
        for wrong in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(
                !Figure {
                    most: wrong,
                    ..figure
                }
                .is_sound(),
                "{wrong}"
            );
            assert!(
                !Figure {
                    median: wrong,
                    ..figure
                }
                .is_sound(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_change_is_told_only_where_the_quartiles_are_apart() {
        let of = |samples: &[f64]| Figure::of(samples).unwrap();
        let (low, high, wide) = (
            of(&[1.0, 1.1, 1.2]),
            of(&[2.0, 2.1, 2.2]),
            of(&[1.0, 1.5, 2.1]),
        );
        assert_eq!(Verdict::of(&low, &high, Better::Less), Verdict::Better);
        assert_eq!(Verdict::of(&low, &high, Better::More), Verdict::Worse);
        assert_eq!(Verdict::of(&high, &low, Better::More), Verdict::Better);
        assert_eq!(Verdict::of(&high, &low, Better::Less), Verdict::Worse);
        assert_eq!(
            Verdict::of(&wide, &high, Better::Less),
            Verdict::WithinNoise
        );
        assert_eq!(Verdict::of(&low, &low, Better::Less), Verdict::WithinNoise);
    }
}

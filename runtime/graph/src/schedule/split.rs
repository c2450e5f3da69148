//! Decides which reductions are split into parts, and where.
//!
//! A CPU reduces a row on one thread and a GPU on one cube, so a few long rows leave all others idle. The split is a
//! rewrite of the schedule, before fusion: the backends see two ordinary nests, the memory plan counts the results of
//! the parts, and the first stage is fused with its operands. In the backends it would be written three times, with
//! memory that no plan counts. It depends on lengths alone, so a sum does not depend on the machine. It costs a second
//! launch, and an expression such as `x.max(0) - x.min(0)` is more kernels, which `multi_output` joins.

use crate::schedule::group::{FEW_ROWS, LONG_ROW};

/// The least number of elements of a part: a shorter one costs more to start than to reduce.
const MIN_PART_ELEMENTS: i64 = 1 << 14;

/// The most parts of all rows together: several for each multiprocessor of the largest GPUs.
const MAX_PARTS: i64 = 1 << 10;

/// Adjacent rows, such as the columns of a table, are reduced this many at a time: they count as one row of all their
/// elements. Such a group, with its accumulators, reduces well without parts up to [`ADJACENT_FACTOR`] times the length
/// of a long row.
const ADJACENT_ROWS: i64 = 256;

/// See [`ADJACENT_ROWS`].
const ADJACENT_FACTOR: i64 = 8;

/// To avoid that parts overlap much, an axis is cut at every index if it has at most this many times the wanted parts.
const EACH_FACTOR: i64 = 16;

/// How reductions of few long rows are split: parts of each row are reduced first, side by side, and then the results
/// of the parts.
///
/// By default a reduction of fewer than 16 rows is split if the rows are longer than 65,536, into parts of at least
/// 16,384 elements each, at most 1,024 for all rows. Adjacent rows, such as the columns of a table, are reduced
/// together: 256 of them count as one row of all their elements, which is long beyond 524,288. A length that depends on
/// a symbol is not split. The split depends on lengths alone, and so do sums, whatever the device and its number of
/// threads.
///
/// ```
/// use millstream_graph::{DType, Graph, Parts, Schedule};
///
/// let graph = Graph::new();
/// let x = graph.input("x", DType::F32, [1000, 1000]);
/// let sum = (&x * &x).sum(..);
/// assert_eq!(Schedule::create_one(&sum)?.items().len(), 2, "parts, and their sum");
/// let whole = Schedule::create_split(&[&sum], Parts::never())?;
/// assert_eq!(whole.items().len(), 1);
/// # Ok::<(), millstream_graph::ScheduleError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parts {
    few: i64,
    long: i64,
    least: i64,
    most: i64,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            few: FEW_ROWS - 1,
            long: LONG_ROW,
            least: MIN_PART_ELEMENTS,
            most: MAX_PARTS,
        }
    }
}

impl Parts {
    /// Never splits a reduction.
    pub fn never() -> Self {
        Self {
            long: i64::MAX,
            ..Self::default()
        }
    }

    /// Splits reductions of up to this many rows, if they are long.
    #[must_use]
    pub fn of_up_to(mut self, rows: u32) -> Self {
        self.few = rows.into();
        self
    }

    /// Splits rows of more elements than this.
    #[must_use]
    pub fn of_rows_beyond(mut self, elements: u32) -> Self {
        self.long = elements.into();
        self
    }

    /// Sets the approximate minimum number of elements of a part.
    #[must_use]
    pub fn of_at_least(mut self, elements: u32) -> Self {
        self.least = i64::from(elements).max(1);
        self
    }

    /// Sets the approximate maximum number of parts of all rows together.
    #[must_use]
    pub fn at_most(mut self, parts: u16) -> Self {
        self.most = parts.into();
        self
    }
}

/// The parts of an axis: part `p` is the `length` elements from `p * step`. The last part ends with the axis. If no
/// number of parts divides the axis, each part overlaps the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Windows {
    pub(crate) parts: i64,
    pub(crate) step: i64,
    pub(crate) length: i64,
}

impl Windows {
    fn new(axis: i64, parts: i64) -> Self {
        let step = axis / parts;
        let length = axis - (parts - 1) * step;
        Self {
            parts,
            step,
            length,
        }
    }

    /// Returns the number of elements that a part shares with the next one.
    pub(crate) fn overlap(&self) -> i64 {
        self.length - self.step
    }
}

/// How the parts of a row divide one of its axes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Share {
    /// Each index belongs to another part.
    Each,
    /// The axis is cut into windows.
    Cut(Windows),
    /// Every part covers the whole axis.
    All,
}

impl Share {
    /// Returns the number of parts of an axis of this length.
    pub(crate) fn parts(&self, length: i64) -> i64 {
        match self {
            Share::Each => length,
            Share::Cut(windows) => windows.parts,
            Share::All => 1,
        }
    }
}

impl Parts {
    /// Returns how rows with these axes, slowest first and none of length 1, are split, or `None` if they are not.
    /// `adjacent` of the rows are adjacent.
    pub(crate) fn shares(&self, rows: i64, adjacent: i64, axes: &[i64]) -> Option<Vec<Share>> {
        let mut row = axes.iter();
        let row = row.try_fold(1_i64, |row, axis| row.checked_mul(*axis))?;
        let (rows, row, long) = match adjacent {
            0 | 1 => (rows, row, self.long),
            adjacent => (
                (rows / adjacent).saturating_mul((adjacent - 1) / ADJACENT_ROWS + 1),
                row.checked_mul(adjacent.min(ADJACENT_ROWS))?,
                self.long.saturating_mul(ADJACENT_FACTOR),
            ),
        };
        if !(1..=self.few).contains(&rows) || row <= long {
            return None;
        }
        let mut wanted = (self.most / rows).min(row / self.least);
        // The slowest axes are divided first, so that parts follow each other in memory.
        let share = |(place, axis): (usize, &i64)| {
            let share = share(*axis, wanted, place + 1 == axes.len());
            wanted = match share {
                Share::Each => wanted / axis,
                Share::Cut(_) | Share::All => 0,
            };
            share
        };
        let shares: Vec<Share> = axes.iter().enumerate().map(share).collect();
        let is_cut = shares.iter().any(|share| *share != Share::All);
        let has_rest = shares.iter().any(|share| *share != Share::Each);
        (is_cut && has_rest).then_some(shares)
    }
}

/// Divides an axis into about `wanted` parts. `is_last`: it is the last axis of the row.
fn share(axis: i64, wanted: i64, is_last: bool) -> Share {
    if wanted < 2 {
        return Share::All;
    }
    if axis <= wanted {
        return Share::Each;
    }
    // Of about as many parts the number with the least overlap for its length, and of equal ones the largest.
    let numbers = (wanted / 2 + 1..=wanted).rev();
    let by_overlap = |a: &Windows, b: &Windows| {
        let beside = |a: &Windows, b: &Windows| i128::from(a.overlap()) * i128::from(b.step);
        beside(a, b).cmp(&beside(b, a))
    };
    let found = numbers
        .map(|parts| Windows::new(axis, parts))
        .min_by(by_overlap);
    match found {
        Some(windows) if windows.overlap() == 0 || is_last || axis > EACH_FACTOR * wanted => {
            Share::Cut(windows)
        }
        // With so few indices parts would overlap much.
        _ => Share::Each,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(parts: i64, step: i64, length: i64) -> Share {
        Share::Cut(Windows {
            parts,
            step,
            length,
        })
    }

    #[test]
    fn long_rows_are_split_by_a_divisor_if_there_is_one() {
        let shares = |rows, axes: &[i64]| Parts::default().shares(rows, 1, axes);
        assert_eq!(
            shares(1, &[1 << 24]),
            Some(vec![cut(1024, 1 << 14, 1 << 14)])
        );
        assert_eq!(
            shares(2, &[1 << 24]),
            Some(vec![cut(512, 1 << 15, 1 << 15)])
        );
        assert_eq!(
            shares(1, &[16_000_000]),
            Some(vec![cut(800, 20_000, 20_000)])
        );
        // A prime: the parts overlap by the least possible.
        assert_eq!(shares(1, &[65_537]), Some(vec![cut(4, 16_384, 16_385)]));
        assert_eq!(
            shares(1, &[32, 64, 56, 56]),
            Some(vec![Share::Each, cut(8, 8, 8), Share::All, Share::All])
        );
        assert_eq!(
            shares(1, &[1031, 65_536]),
            Some(vec![Share::Each, Share::All])
        );
    }

    #[test]
    fn short_rows_and_many_rows_are_not_split() {
        assert_eq!(Parts::default().shares(1, 1, &[1 << 16]), None);
        assert_eq!(Parts::default().shares(FEW_ROWS, 1, &[1 << 24]), None);
        assert_eq!(Parts::default().shares(0, 1, &[1 << 24]), None);
        assert_eq!(Parts::default().shares(1, 1, &[]), None);
        assert_eq!(Parts::never().shares(1, 1, &[1 << 40]), None);
        let more = Parts::default().of_up_to(FEW_ROWS as u32);
        assert!(more.shares(FEW_ROWS, 1, &[1 << 24]).is_some());
        assert_eq!(Parts::default().at_most(0).shares(1, 1, &[1 << 24]), None);
    }

    #[test]
    fn adjacent_rows_are_split_like_one_row_of_all_their_elements() {
        let shares = |rows, adjacent, axes: &[i64]| Parts::default().shares(rows, adjacent, axes);
        // A table of 100 columns: nearly as many elements in a part as for a single row.
        assert_eq!(shares(100, 100, &[20_000]), Some(vec![cut(100, 200, 200)]));
        assert_eq!(shares(100, 1, &[20_000]), None, "rows are not adjacent");
        assert_eq!(shares(1024, 1024, &[4096]), Some(vec![cut(64, 64, 64)]));
        // Enough rows for many threads, short rows, and no rows.
        assert_eq!(shares(1 << 12, 1 << 12, &[1 << 20]), None);
        assert_eq!(shares(16 * 24, 24, &[1 << 20]), None);
        assert_eq!(shares(2048, 2048, &[512]), None);
        assert_eq!(shares(0, 0, &[1 << 20]), None);
        assert_eq!(Parts::never().shares(100, 100, &[1 << 40]), None);
    }

    proptest! {
        #[test]
        fn windows_cover_an_axis_and_end_with_it(
            axis in 2_i64..1 << 40, wanted in 2_i64..2000, is_last: bool,
        ) {
            match share(axis, wanted, is_last) {
                Share::Cut(windows) => {
                    prop_assert!(windows.parts >= 2 && windows.parts <= wanted);
                    prop_assert!(windows.overlap() >= 0);
                    prop_assert!(windows.overlap() < windows.parts);
                    prop_assert_eq!((windows.parts - 1) * windows.step + windows.length, axis);
                }
                Share::Each => prop_assert!(axis <= EACH_FACTOR * wanted),
                Share::All => prop_assert!(false, "the axis is divided"),
            }
        }
    }
}

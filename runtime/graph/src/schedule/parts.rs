//! Which rows are reduced in parts, and where they are cut.

use crate::schedule::group::{FEW_ROWS, LONG_ROW};

/// A part has at least so many elements: shorter ones cost more to begin than to walk.
const LEAST_PART: i64 = 1 << 14;

/// Most parts of all rows together: several for each multiprocessor of the greatest GPUs.
const MOST_PARTS: i64 = 1 << 10;

/// Rows that lie side by side, as columns of a table do, are walked so many at a time: those are one row of all their elements. That goes
/// well without parts, and with the rows' results, up to this many times the length beyond which a row by itself is cut.
const ABREAST: i64 = 256;
const ABREAST_LONGER: i64 = 8;

/// Rather than that parts overlap much, there are up to so many times as many.
const EACH_UP_TO: i64 = 16;

/// How rows are cut when they are few and long: parts of them are reduced first, side by side, and then what came of the parts.
///
/// A reduction of fewer than 16 rows is, if rows are longer than 65,536: into parts of at least 16,384 elements each, at most
/// 1,024 for all rows. Rows that lie side by side, as columns of a table do, are walked together: 256 of them count as one row, of all
/// their elements, which is long if these are more than 524,288. A length that depends on a symbol is not cut. Where rows are cut depends on
/// their lengths alone, and so do sums, whatever the device is and however many threads it has.
///
/// ```
/// use millstream_graph::{DType, Graph, Parts, Schedule};
///
/// let graph = Graph::new();
/// let x = graph.input("x", DType::F32, [1000, 1000]);
/// let sum = (&x * &x).sum(..);
/// assert_eq!(Schedule::create_one(&sum)?.items().len(), 2, "parts, and their sum");
/// let whole = Schedule::create_in_parts(&[&sum], Parts::never())?;
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
            least: LEAST_PART,
            most: MOST_PARTS,
        }
    }
}

impl Parts {
    /// Rows are never cut.
    pub fn never() -> Self {
        Self {
            long: i64::MAX,
            ..Self::default()
        }
    }

    /// Up to so many rows are cut, if they are long.
    #[must_use]
    pub fn of_up_to(mut self, rows: u32) -> Self {
        self.few = rows.into();
        self
    }

    /// Rows of more elements than this are cut.
    #[must_use]
    pub fn of_rows_beyond(mut self, elements: u32) -> Self {
        self.long = elements.into();
        self
    }

    /// A part has about so many elements at least.
    #[must_use]
    pub fn of_at_least(mut self, elements: u32) -> Self {
        self.least = i64::from(elements).max(1);
        self
    }

    /// All rows together have about so many parts at most.
    #[must_use]
    pub fn at_most(mut self, parts: u16) -> Self {
        self.most = parts.into();
        self
    }
}

/// Parts of an axis: the `p`th is `length` elements from `p * step`. The last one ends where the axis does. Where no number of parts
/// divides the axis, each overlaps the next one.
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

    /// Elements of a part that are the next one's as well.
    pub(crate) fn overlap(&self) -> i64 {
        self.length - self.step
    }
}

/// What becomes of an axis of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Share {
    /// Each index is of another part.
    Each,
    /// It is cut.
    Cut(Windows),
    /// Every part has all of it.
    All,
}

impl Share {
    /// How many parts an axis of this length makes.
    pub(crate) fn parts(&self, length: i64) -> i64 {
        match self {
            Share::Each => length,
            Share::Cut(windows) => windows.parts,
            Share::All => 1,
        }
    }
}

impl Parts {
    /// How rows with these axes, slowest first and none of length 1, are cut; none if they are not. So many of the rows lie side by side.
    pub(crate) fn shares(&self, rows: i64, abreast: i64, axes: &[i64]) -> Option<Vec<Share>> {
        let mut row = axes.iter();
        let row = row.try_fold(1_i64, |row, axis| row.checked_mul(*axis))?;
        let (rows, row, long) = match abreast {
            0 | 1 => (rows, row, self.long),
            abreast => (
                (rows / abreast).saturating_mul((abreast - 1) / ABREAST + 1),
                row.checked_mul(abreast.min(ABREAST))?,
                self.long.saturating_mul(ABREAST_LONGER),
            ),
        };
        if !(1..=self.few).contains(&rows) || row <= long {
            return None;
        }
        let mut wanted = (self.most / rows).min(row / self.least);
        // The slowest axes, so that parts follow each other as the elements do.
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

/// What becomes of an axis of which so many parts are wanted. Is it the last of the row?
fn share(axis: i64, wanted: i64, is_last: bool) -> Share {
    if wanted < 2 {
        return Share::All;
    }
    if axis <= wanted {
        return Share::Each;
    }
    // Of about as many parts those that overlap least for their length, and of such the most.
    let numbers = (wanted / 2 + 1..=wanted).rev();
    let by_overlap = |a: &Windows, b: &Windows| {
        let beside = |a: &Windows, b: &Windows| i128::from(a.overlap()) * i128::from(b.step);
        beside(a, b).cmp(&beside(b, a))
    };
    let found = numbers
        .map(|parts| Windows::new(axis, parts))
        .min_by(by_overlap);
    match found {
        Some(windows) if windows.overlap() == 0 || is_last || axis > EACH_UP_TO * wanted => {
            Share::Cut(windows)
        }
        // Of so few indices a part would overlap much.
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
    fn long_rows_are_cut_by_a_divisor_where_there_is_one() {
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
        // Prime: the parts overlap by as little as can be.
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
    fn short_rows_and_many_rows_are_not_cut() {
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
    fn rows_side_by_side_are_cut_as_the_one_row_that_they_are_walked_as() {
        let shares = |rows, abreast, axes: &[i64]| Parts::default().shares(rows, abreast, axes);
        // A table of a hundred columns: as many elements a part as of a single row, or nearly.
        assert_eq!(shares(100, 100, &[20_000]), Some(vec![cut(100, 200, 200)]));
        assert_eq!(shares(100, 1, &[20_000]), None, "one below the other");
        assert_eq!(shares(1024, 1024, &[4096]), Some(vec![cut(64, 64, 64)]));
        // What many threads share as it is, what is short, and what is nothing.
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
                Share::Each => prop_assert!(axis <= EACH_UP_TO * wanted),
                Share::All => prop_assert!(false, "it is cut"),
            }
        }
    }
}

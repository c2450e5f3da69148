//! The domain, its strips of rows, and the contents of both fields at the start.
//!
//! A row holds the cells of the first substance, then those of the second, so that one message carries both.

use std::ops::Range;

/// The cells of the whole domain, a torus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Domain {
    pub rows: usize,
    pub columns: usize,
}

/// The number of drops of the second substance at the start.
const DROPS: usize = 9;

impl Domain {
    /// Returns the number of cells.
    pub fn cells(self) -> usize {
        self.rows * self.columns
    }

    /// Returns the number of elements of a row: of both fields.
    pub fn row_len(self) -> usize {
        2 * self.columns
    }

    /// Returns the rows of a rank. The numbers of rows of any two ranks differ by one at most.
    pub fn strip(self, rank: usize, ranks: usize) -> Range<usize> {
        rank * self.rows / ranks..(rank + 1) * self.rows / ranks
    }

    /// Returns the given rows at the start: drops of the second substance in the first.
    pub fn start(self, strip: Range<usize>) -> Vec<f32> {
        let mut cells = vec![0.0; strip.len() * self.row_len()];
        let radius = (self.rows.min(self.columns) / 40).max(2);
        for drop in 1..=DROPS {
            // Multiples of powers of the plastic number are spread evenly, without rows.
            let position = |ratio: f64, length: usize| {
                ((drop as f64 * ratio).fract() * length as f64) as usize
            };
            let top = position(0.754_877_666, self.rows);
            let left = position(0.569_840_291, self.columns);
            for row in (top..top + 2 * radius).map(|row| row % self.rows) {
                if !strip.contains(&row) {
                    continue;
                }
                let second = (row - strip.start) * self.row_len() + self.columns;
                for column in left..left + 2 * radius {
                    cells[second + column % self.columns] = 0.5;
                }
            }
        }
        for row in cells.chunks_exact_mut(self.row_len()) {
            let (first, second) = row.split_at_mut(self.columns);
            for (first, second) in first.iter_mut().zip(second) {
                *first = 1.0 - *second;
            }
        }
        cells
    }

    /// Returns the cells of the second substance in whole rows.
    pub fn second(self, rows: &[f32]) -> impl Iterator<Item = f32> {
        let rows = rows.chunks_exact(self.row_len());
        rows.flat_map(move |row| row[self.columns..].iter().copied())
    }
}

//! A launch of a product: its three matrices, each checked to lie in its binding.

use millstream_protocol::NativeView;

use super::MatmulCode;
use crate::launch::{never_collide, overlap, reach, within};
use crate::prepare_error::{PrepareError, check_count, lengths};
use crate::space::Axes;

/// One of the three matrices of a launch: its first element and its strides.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    pub(super) base: *mut u8,
    /// The strides of the batch axes.
    pub(super) batch: &'a [u64],
    pub(super) row: isize,
    pub(super) column: isize,
    pub(super) bytes: (usize, usize),
}

impl Matrix<'_> {
    /// Returns the place of an element.
    #[inline(always)]
    pub(super) fn at<T>(&self, row: usize, column: usize) -> *mut T {
        let place = row as isize * self.row + column as isize * self.column;
        self.base.cast::<T>().wrapping_offset(place)
    }

    fn transposed(self) -> Self {
        Self {
            row: self.column,
            column: self.row,
            ..self
        }
    }
}

/// A launch of a product.
#[derive(Clone, Copy)]
pub(super) struct Product<'a> {
    pub(super) views: &'a [NativeView],
    pub(super) words: &'a [u64],
    pub(super) batch: &'a [u64],
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) lhs: Matrix<'a>,
    pub(super) rhs: Matrix<'a>,
    pub(super) out: Matrix<'a>,
}

// SAFETY: its pointers are used by pieces that write different elements.
unsafe impl Sync for Product<'_> {}

impl MatmulCode {
    /// Checks the words, and returns the product; `None` if there is nothing to do.
    pub(super) fn measure<'a>(
        &self,
        views: &'a [NativeView],
        words: &'a [u64],
    ) -> Result<Option<Product<'a>>, PrepareError> {
        let axes = self.matmul.batch;
        let more = self
            .matmul
            .epilogue
            .as_ref()
            .map_or(1, |nest| nest.buffers.len());
        check_count("bindings", 2 + more, views.len())?;
        check_count("words", self.matmul.words(), words.len())?;
        let (lens, rest) = words.split_at(axes + 3);
        let all = Axes::of(lens).ok_or_else(|| lengths(lens))?;
        let (m, n, k) = (all.lens[axes], all.lens[axes + 1], all.lens[axes + 2]);
        let offsets = &rest[3 * (axes + 2)..];
        let matrix = |index: usize, rows: usize, columns: usize| {
            let strides = &rest[index * (axes + 2)..][..axes + 2];
            self.matrix(
                views[index],
                index,
                &lens[..axes],
                [rows, columns],
                strides,
                offsets[index],
            )
        };
        if lens[..axes].contains(&0) || m == 0 || n == 0 {
            return Ok(None);
        }
        let out = matrix(2, m, n)?;
        // Without depth the result is zero, and nothing is read.
        let (lhs, rhs) = match k {
            0 => (out, out),
            _ => (matrix(0, m, k)?, matrix(1, k, n)?),
        };
        if k > 0 && (overlap(lhs.bytes, out.bytes) || overlap(rhs.bytes, out.bytes)) {
            return Err(
                "the product (binding 2) overlaps one of its factors; give it separate memory"
                    .into(),
            );
        }
        Ok(Some(Product {
            views,
            words,
            batch: &lens[..axes],
            m,
            n,
            k,
            lhs,
            rhs,
            out,
        }))
    }

    /// Checks that a matrix stays in its binding, and returns it.
    fn matrix<'a>(
        &self,
        view: NativeView,
        index: usize,
        batch: &[u64],
        lens: [usize; 2],
        strides: &'a [u64],
        offset: u64,
    ) -> Result<Matrix<'a>, PrepareError> {
        let size = self.matmul.dtype.size();
        let lens = batch.iter().map(|len| *len as usize).chain(lens);
        let steps = strides.iter().map(|stride| *stride as isize);
        let bytes = within(
            index,
            index,
            view,
            size,
            reach(offset as i64, lens.zip(steps)),
        )?;
        let axes = strides.len() - 2;
        Ok(Matrix {
            base: view.pointer.wrapping_add(offset as usize * size),
            batch: &strides[..axes],
            row: strides[axes] as isize,
            column: strides[axes + 1] as isize,
            bytes,
        })
    }
}

impl Product<'_> {
    /// Returns the product whose output is the transpose of this one's, at the same places.
    pub(super) fn transposed(&self) -> Self {
        Self {
            m: self.n,
            n: self.m,
            lhs: self.rhs.transposed(),
            rhs: self.lhs.transposed(),
            out: self.out.transposed(),
            ..*self
        }
    }

    /// Returns `true` if different elements of the output are provably at different places.
    pub(super) fn elements_are_disjoint(&self) -> bool {
        let batch = self.out.batch.iter().zip(self.batch);
        let batch = batch.map(|(stride, len)| (*len as usize, *stride as isize));
        never_collide(batch.chain([(self.m, self.out.row), (self.n, self.out.column)]))
    }
}

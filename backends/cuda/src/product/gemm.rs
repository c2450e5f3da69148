//! Translates a launch of a product to cuBLASLt's description: three column-major matrices, possibly transposed, with a
//! batch stride each. Operands in millstream are views with arbitrary strides, so not every launch has such a
//! description.

use millstream_ir::Matmul;

/// The library uses 32-bit lengths in places.
const LENGTH_MAX: i64 = i32::MAX as i64;

/// A product as the library describes it: `d = a b`, where `a` has `depth` columns and `b` as many rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Gemm {
    pub(crate) depth: i64,
    pub(crate) batch: i64,
    pub(crate) a: MatrixLayout,
    pub(crate) b: MatrixLayout,
    /// Never transposed.
    pub(crate) d: MatrixLayout,
    /// Whether this is the transposed product, for a row-major result: `a` is the right operand of the launch, and all
    /// three matrices are transposed.
    pub(crate) swapped: bool,
}

/// The layout of a matrix in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct MatrixLayout {
    /// Whether the matrix in memory, which is column-major, is the transposed one.
    pub(crate) transposed: bool,
    /// Rows and columns in memory.
    pub(crate) lens: [i64; 2],
    /// The leading dimension: elements from one column in memory to the next.
    pub(crate) leading: i64,
    /// Elements from one matrix of the batch to the next.
    pub(crate) batch_stride: i64,
}

/// A matrix of a launch: its lengths, and the strides from one row and from one column to the next, in elements.
#[derive(Clone, Copy)]
struct View {
    lens: [i64; 2],
    strides: [i64; 2],
}

impl View {
    fn transposed(self) -> Self {
        let ([rows, columns], [down, right]) = (self.lens, self.strides);
        Self {
            lens: [columns, rows],
            strides: [right, down],
        }
    }

    /// Returns the leading dimension if the matrix is column-major. The stride of an axis of length 1 is irrelevant.
    fn leading(self) -> Option<i64> {
        let ([rows, columns], [down, right]) = (self.lens, self.strides);
        if down != 1 && rows != 1 {
            return None;
        }
        match columns {
            1 => Some(rows),
            _ => (rows..=LENGTH_MAX).contains(&right).then_some(right),
        }
    }

    /// Returns the layout of the matrix, or of the one that is the transpose of it, if it is column-major.
    fn column_major(self, transposed: bool, batch_stride: i64) -> Option<MatrixLayout> {
        Some(MatrixLayout {
            transposed,
            lens: self.lens,
            leading: self.leading()?,
            batch_stride,
        })
    }

    fn layout(self, batch_stride: i64) -> Option<MatrixLayout> {
        let transposed = || self.transposed().column_major(true, batch_stride);
        self.column_major(false, batch_stride).or_else(transposed)
    }
}

impl Gemm {
    /// Describes a launch with these words. Returns `None` if the library has no such description, or an axis is empty.
    pub(crate) fn of(matmul: &Matmul, words: &[u64]) -> Option<Self> {
        let axes = matmul.batch;
        let word = |at: usize| words.get(at).map(|word| *word as i64);
        let (m, n, k) = (word(axes)?, word(axes + 1)?, word(axes + 2)?);
        if [m, n, k].iter().any(|len| !(1..=LENGTH_MAX).contains(len)) {
            return None;
        }
        let first = axes + 3;
        let side = |index: usize| first + index * (axes + 2);
        let view = |index: usize, lens| {
            let at = side(index) + axes;
            let strides = [word(at)?, word(at + 1)?];
            Some(View { lens, strides })
        };
        let (lhs, rhs, out) = (view(0, [m, k])?, view(1, [k, n])?, view(2, [m, n])?);
        let (batch, strides) = batch(axes, |axis| {
            Some((word(axis)?, [0, 1, 2].map(|index| word(side(index) + axis))))
        })?;
        let [of_lhs, of_rhs, of_out] = strides;
        // A row-major result is the column-major result of the transposed product.
        let swapped = out.leading().is_none();
        let ((a, of_a), (b, of_b), d) = match swapped {
            false => ((lhs, of_lhs), (rhs, of_rhs), out),
            true => (
                (rhs.transposed(), of_rhs),
                (lhs.transposed(), of_lhs),
                out.transposed(),
            ),
        };
        Some(Self {
            depth: k,
            batch,
            a: a.layout(of_a)?,
            b: b.layout(of_b)?,
            d: d.column_major(false, of_out)?,
            swapped,
        })
    }

    /// Returns the number of multiplications.
    pub(crate) fn multiplications(&self) -> u64 {
        let [rows, columns] = self.d.lens;
        let all = [rows, columns, self.depth, self.batch];
        all.iter()
            .fold(1_u64, |product, len| product.saturating_mul(*len as u64))
    }
}

/// Merges all batch axes into one. Returns its length and the strides of the three matrices along it, or `None` if the
/// axes cannot be merged.
fn batch(
    axes: usize,
    axis: impl Fn(usize) -> Option<(i64, [Option<i64>; 3])>,
) -> Option<(i64, [i64; 3])> {
    let mut merged: Option<(i64, [i64; 3])> = None;
    for index in (0..axes).rev() {
        let (len, strides) = axis(index)?;
        let [Some(lhs), Some(rhs), Some(out)] = strides else {
            return None;
        };
        let strides = [lhs, rhs, out];
        if len == 1 {
            continue;
        }
        merged = match merged {
            None => Some((len, strides)),
            // The axes merge if a step of the outer axis equals all steps of the inner one, in each matrix.
            Some((inner, steps)) => {
                let contiguous = steps.map(|step| step.checked_mul(inner));
                if strides.map(Some) != contiguous {
                    return None;
                }
                Some((len.checked_mul(inner)?, steps))
            }
        };
    }
    let (len, strides) = merged.unwrap_or((1, [0; 3]));
    (1..=LENGTH_MAX).contains(&len).then_some((len, strides))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matmul(batch: usize) -> Matmul {
        Matmul {
            dtype: millstream_ir::DType::F32,
            partial: false,
            batch,
            epilogue: None,
        }
    }

    fn gemm(batch: usize, words: &[i64]) -> Option<Gemm> {
        let words: Vec<u64> = words.iter().map(|word| *word as u64).collect();
        Gemm::of(&matmul(batch), &words)
    }

    /// Returns the offset of element `[row, column]` of matrix `index` of a batch, as the library computes it.
    fn offset(layout: MatrixLayout, index: i64, row: i64, column: i64) -> i64 {
        let (fast, slow) = match layout.transposed {
            false => (row, column),
            true => (column, row),
        };
        index * layout.batch_stride + fast + slow * layout.leading
    }

    /// Each element that the library reads or writes is the one that the launch describes.
    #[test]
    fn gemm_accesses_the_elements_of_the_launch() {
        let lens = [1, 2, 3];
        let mut supported = 0;
        for (m, n, k, outer) in quadruples(lens) {
            for strides in 0..27 {
                // Each operand is row-major, column-major, or row-major with gaps.
                let of = |which: i64, rows: i64, columns: i64| match which {
                    0 => [rows * columns, columns, 1],
                    1 => [rows * columns, 1, rows],
                    _ => [0, columns + 2, 1],
                };
                let lhs = of(strides % 3, m, k);
                let rhs = of(strides / 3 % 3, k, n);
                let mut out = of(strides / 9, m, n);
                if out[0] == 0 {
                    out[0] = m * (n + 2);
                }
                let words = [&[outer, m, n, k][..], &lhs, &rhs, &out, &[0, 0, 0]].concat();
                let Some(gemm) = gemm(1, &words) else {
                    continue;
                };
                supported += 1;
                assert_eq!((gemm.depth, gemm.batch), (k, outer));
                let at = |strides: [i64; 3], b, row, column| {
                    b * strides[0] + row * strides[1] + column * strides[2]
                };
                for (b, i, j, l) in all([outer, m, n, k]) {
                    let (lhs, rhs, out) = (at(lhs, b, i, l), at(rhs, b, l, j), at(out, b, i, j));
                    let (found, expected) = match gemm.swapped {
                        false => (
                            [
                                offset(gemm.a, b, i, l),
                                offset(gemm.b, b, l, j),
                                offset(gemm.d, b, i, j),
                            ],
                            [lhs, rhs, out],
                        ),
                        true => (
                            [
                                offset(gemm.a, b, j, l),
                                offset(gemm.b, b, l, i),
                                offset(gemm.d, b, j, i),
                            ],
                            [rhs, lhs, out],
                        ),
                    };
                    assert_eq!(found, expected, "{words:?}: {gemm:?}");
                }
            }
        }
        assert!(supported > 1000, "{supported} launches are supported");
    }

    fn quadruples(lens: [i64; 3]) -> impl Iterator<Item = (i64, i64, i64, i64)> {
        let each = move |index: usize| lens[index % 3];
        (0..81).map(move |at| (each(at), each(at / 3), each(at / 9), each(at / 27)))
    }

    fn all([b, m, n, k]: [i64; 4]) -> impl Iterator<Item = (i64, i64, i64, i64)> {
        (0..b * m * n * k).map(move |at| (at / (m * n * k), at / (n * k) % m, at / k % n, at % k))
    }

    #[test]
    fn unsupported_views_have_no_gemm() {
        let words = |lhs: [i64; 2]| {
            let [down, right] = lhs;
            [4, 4, 4, down, right, 4, 1, 4, 1, 0, 0, 0]
        };
        assert!(gemm(0, &words([4, 1])).is_some());
        assert_eq!(gemm(0, &words([8, 2])), None, "gaps along both axes");
        assert_eq!(gemm(0, &words([-4, 1])), None, "reversed rows");
        assert_eq!(gemm(0, &words([0, 1])), None, "broadcast row");
        assert_eq!(gemm(0, &words([2, 1])), None, "overlapping rows");
        assert_eq!(
            gemm(0, &[4, 0, 4, 4, 1, 4, 1, 4, 1, 0, 0, 0]),
            None,
            "empty axis"
        );
    }

    #[test]
    fn contiguous_batch_axes_are_merged() {
        let of = |lhs: [i64; 2], rhs: [i64; 2]| {
            let side = |[outer, inner]: [i64; 2]| [outer, inner, 4, 1];
            let words = [
                &[2, 3, 4, 4, 4][..],
                &side(lhs),
                &side(rhs),
                &side([48, 16]),
                &[0, 0, 0],
            ];
            gemm(2, &words.concat())
                .map(|gemm| (gemm.batch, gemm.a.batch_stride, gemm.b.batch_stride))
        };
        // The result is row-major, so `a` is the right operand.
        assert_eq!(of([48, 16], [48, 16]), Some((6, 16, 16)));
        assert_eq!(
            of([48, 16], [0, 0]),
            Some((6, 0, 16)),
            "all matrices share the right operand"
        );
        assert_eq!(of([48, 16], [16, 0]), None, "some matrices share it");
    }
}

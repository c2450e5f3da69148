//! Matrix products by tiles, for devices without a library.
//!
//! A cube computes a tile, by default of 64 x 64 elements. It copies 16 columns of the left matrix and 16 rows of the
//! right one at a time to shared memory, in the type of computation. Each of 256 threads computes some neighbouring
//! elements of the tile: 4 x 4 of 64 x 64. Strides may be any: neighbouring threads load along the contiguous axis of a
//! matrix.
//!
//! ```text
//!  for each 16 of k        all threads: copy the piece of lhs and rhs to shared memory
//!                          barrier: the pieces are complete
//!                          each thread: 16 steps of multiply-add from shared memory to registers
//!                          barrier: all threads have read the pieces; the next ones may overwrite them
//!  each thread             epilogue, store
//! ```

use super::emit::{Emit, unravel};
use super::rows::Rows;
use crate::ssa::{Axis, Builder, Function, MemoryRef, Position, Val};
use crate::{Blocking, DType, Matmul, ProgramError};

/// Rows and columns of a tile by default.
const TILE: [u32; 2] = [64, 64];
/// Other tiles: large ones load less and use more registers, small ones are for products that would otherwise have few
/// cubes.
const TILES: [[u32; 2]; 5] = [[128, 128], [128, 64], [64, 128], [32, 64], [32, 32]];
/// The length along k that is copied to shared memory at a time.
const DEPTH: u32 = 16;
/// The number of threads along either axis.
const THREADS_PER_AXIS: u32 = 16;

/// Returns the blockings of a product besides the default.
pub(super) fn blockings() -> impl Iterator<Item = Blocking> {
    TILES
        .iter()
        .map(|[rows, columns]| Blocking::DEFAULT.tile(*rows, *columns))
}

/// Returns the number of cubes along x of a launch of a product. 0: there is nothing to do.
pub fn tiles(matmul: &Matmul, words: &[u64], blocking: Blocking) -> u32 {
    let word = |index: usize| {
        let word = words.get(index).map_or(0, |word| *word as i64);
        word.max(0).unsigned_abs()
    };
    let batches = (0..matmul.batch).map(word).fold(1, u64::saturating_mul);
    let [rows, columns] = blocking.tile.unwrap_or(TILE).map(u64::from);
    let all = word(matmul.batch)
        .div_ceil(rows)
        .saturating_mul(word(matmul.batch + 1).div_ceil(columns))
        .saturating_mul(batches);
    // If there are more tiles than cubes in a launch, cubes loop over further tiles.
    all.min(i32::MAX as u64) as u32
}

/// Returns the function of a valid product, with the default tiles or those of a blocking from
/// [`blockings`](super::blockings).
///
/// # Errors
/// If the epilogue exceeds the limits of a function, or the product was not checked.
pub fn matmul(matmul: &Matmul, blocking: Blocking) -> Result<Function, ProgramError> {
    let shape = blocking.tile.unwrap_or(TILE);
    let k = Builder::new("product", [THREADS_PER_AXIS, THREADS_PER_AXIS, 1]);
    let dtype = matmul.dtype;
    let (lhs, rhs) = (k.read("lhs", dtype), k.read("rhs", dtype));
    let out = k.update("out", dtype);
    let more = matmul.epilogue.iter().flat_map(|nest| &nest.buffers[1..]);
    let more = (1..).zip(more);
    let more = more.map(|(index, of)| k.param(format!("b{index}"), of.dtype, of.mode));
    let buffers: Vec<MemoryRef<'_>> = [out].into_iter().chain(more).collect();
    let words: Vec<Val<'_>> = (0..matmul.words())
        .map(|word| k.scalar(format!("w{word}"), DType::U64))
        .collect();
    let tile = Tile {
        k: &k,
        matmul,
        words: &words,
        shape,
        left: k.shared("left", dtype.computed(), shape[0] * DEPTH),
        right: k.shared("right", dtype.computed(), shape[1] * DEPTH),
    };
    let [m, n] = [0, 1].map(|axis| tile.word(matmul.batch + axis));
    let [rows, columns] = shape.map(i64::from);
    let [across, down] = [(n, columns), (m, rows)].map(|(len, tile)| (len + (tile - 1)) / tile);
    let batches = (0..matmul.batch).fold(k.constant(1), |all, axis| all * tile.word(axis));
    k.range(k.cube(), across * down * batches, k.cubes(), |nth| {
        let rest = nth / across;
        let (column, row) = ((nth - rest * across) * columns, rest % down * rows);
        let batch = unravel(0..matmul.batch, rest / down, |axis| tile.word(axis));
        let sums = tile.sums([lhs, rhs], &batch, [row, column]);
        tile.store(sums, &buffers, &batch, [row, column]);
    });
    k.build()
}

struct Tile<'k, 'n> {
    k: &'k Builder,
    matmul: &'n Matmul,
    words: &'n [Val<'k>],
    /// Rows and columns.
    shape: [u32; 2],
    left: MemoryRef<'k>,
    right: MemoryRef<'k>,
}

impl<'k> Tile<'k, '_> {
    fn word(&self, index: usize) -> Val<'k> {
        self.words[index].bits(DType::I64)
    }

    /// Returns the start of a batch in buffer `nth` of the three, and its two strides.
    fn matrix(&self, nth: usize, batch: &[Val<'k>]) -> (Val<'k>, [Val<'k>; 2]) {
        let rank = self.matmul.batch + 2;
        let strides = self.matmul.batch + 3 + nth * rank;
        let offset = self.word(self.matmul.batch + 3 + 3 * rank + nth);
        let steps = batch.iter().enumerate();
        let base = steps.fold(offset, |base, (axis, index)| {
            base + *index * self.word(strides + axis)
        });
        (
            base,
            [0, 1].map(|axis| self.word(strides + self.matmul.batch + axis)),
        )
    }

    /// Returns the rows and columns of a thread.
    fn elements_per_thread(&self) -> [u32; 2] {
        self.shape.map(|len| len / THREADS_PER_AXIS)
    }

    /// Copies a piece of a matrix to shared memory: `DEPTH` rows of `width` elements, as `[k][along]`. Elements beyond
    /// the matrix are zero.
    fn copy_piece(
        &self,
        (to, width): (MemoryRef<'k>, u32),
        from: MemoryRef<'k>,
        (base, [stride, stride_k]): (Val<'k>, [Val<'k>; 2]),
        ([start, start_k], [len, len_k]): ([Val<'k>; 2], [Val<'k>; 2]),
    ) {
        let k = self.k;
        let thread =
            k.position(Position::Thread, Axis::Y) * i64::from(THREADS_PER_AXIS) + k.thread();
        let dtype = to.dtype();
        // Neighbouring threads load along k if that axis is contiguous. All threads agree on it.
        let along_k = stride_k.eq(1);
        k.unrolled(
            width * DEPTH / (THREADS_PER_AXIS * THREADS_PER_AXIS),
            |turn| {
                let nth = turn * i64::from(THREADS_PER_AXIS * THREADS_PER_AXIS) + thread;
                let place = along_k.select(nth / i64::from(DEPTH), nth % i64::from(width));
                let depth = along_k.select(nth % i64::from(DEPTH), nth / i64::from(width));
                let (at, at_k) = (start + place, start_k + depth);
                let element = k.var("laid", k.bits(dtype, 0));
                k.when(at.lt(len) & at_k.lt(len_k), || {
                    let value = from.get(base + at * stride + at_k * stride_k);
                    element.set(value.cast(dtype));
                });
                to.set(depth * i64::from(width) + place, element.get());
            },
        );
    }

    /// Returns the sums of a thread, row by row.
    fn sums(
        &self,
        [lhs, rhs]: [MemoryRef<'k>; 2],
        batch: &[Val<'k>],
        [row, column]: [Val<'k>; 2],
    ) -> Vec<Val<'k>> {
        let k = self.k;
        let [m, n, depth] = [0, 1, 2].map(|axis| self.word(self.matmul.batch + axis));
        let (left_base, left_strides) = self.matrix(0, batch);
        let (right_base, [right_k, right_n]) = self.matrix(1, batch);
        let dtype = self.left.dtype();
        let zero = k.bits(dtype, 0);
        let elements_per_thread = self.elements_per_thread();
        let sums = (0..elements_per_thread[0] * elements_per_thread[1]).map(|_| k.var("sum", zero));
        let sums: Vec<_> = sums.collect();
        let (x, y) = (k.thread(), k.position(Position::Thread, Axis::Y));
        k.range(0, depth, i64::from(DEPTH), |start| {
            self.copy_piece(
                (self.left, self.shape[0]),
                lhs,
                (left_base, left_strides),
                ([row, start], [m, depth]),
            );
            let right = (right_base, [right_n, right_k]);
            self.copy_piece(
                (self.right, self.shape[1]),
                rhs,
                right,
                ([column, start], [n, depth]),
            );
            k.barrier();
            k.unrolled(DEPTH, |step| {
                let line = |from, thread: Val<'k>, axis: usize| {
                    let at = step * i64::from(self.shape[axis])
                        + thread * i64::from(elements_per_thread[axis]);
                    load_wide(from, at, elements_per_thread[axis])
                };
                let (left, right) = (line(self.left, y, 0), line(self.right, x, 1));
                for (sum, (a, b)) in sums.iter().zip(pairs(&left, &right)) {
                    // Fused for floats, as in every library.
                    sum.set(match dtype.is_float() {
                        true => a.fma(b, sum.get()),
                        false => a * b + sum.get(),
                    });
                }
            });
            k.barrier();
        });
        sums.iter().map(|sum| sum.get()).collect()
    }

    /// Stores a thread's elements, after the epilogue if there is one.
    fn store(
        &self,
        sums: Vec<Val<'k>>,
        buffers: &[MemoryRef<'k>],
        batch: &[Val<'k>],
        [row, column]: [Val<'k>; 2],
    ) {
        let k = self.k;
        let [m, n] = [0, 1].map(|axis| self.word(self.matmul.batch + axis));
        let (x, y) = (k.thread(), k.position(Position::Thread, Axis::Y));
        let (base, [stride_m, stride_n]) = self.matrix(2, batch);
        let out = buffers[0];
        let [rows, columns] = self.elements_per_thread().map(i64::from);
        for (nth, sum) in (0_i64..).zip(sums) {
            let row = row + y * rows + nth / columns;
            let column = column + x * columns + nth % columns;
            k.when(row.lt(m) & column.lt(n), || {
                let product = sum.cast(out.dtype());
                let Some(nest) = &self.matmul.epilogue else {
                    return out.set(base + row * stride_m + column * stride_n, product);
                };
                let rows = Rows::new(Emit {
                    k,
                    nest,
                    words: &self.words[self.matmul.epilogue_words()..],
                    buffers: buffers.to_vec(),
                    lanes: 1,
                    product: Some(product),
                });
                rows.whole_row(&[batch, &[row, column]].concat());
            });
        }
    }
}

/// Loads neighbours from shared memory with the widest possible accesses.
fn load_wide<'k>(from: MemoryRef<'k>, at: Val<'k>, count: u32) -> Vec<Val<'k>> {
    let lanes = (crate::ssa::ACCESS_BYTES_MAX / from.dtype().size()).min(count as usize) as u8;
    let starts = (0..count as u8).step_by(usize::from(lanes));
    let wide = starts.map(|start| from.get_wide(at + i64::from(start), lanes));
    wide.flat_map(|wide| (0..lanes).map(move |lane| wide.lane(lane)))
        .collect()
}

fn pairs<'k>(rows: &[Val<'k>], columns: &[Val<'k>]) -> impl Iterator<Item = (Val<'k>, Val<'k>)> {
    rows.iter()
        .flat_map(move |row| columns.iter().map(move |column| (*row, *column)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_copies_and_computes_the_same_number_of_elements() {
        for tile in TILES.iter().chain([&TILE]) {
            for len in tile {
                assert!(
                    len.is_multiple_of(THREADS_PER_AXIS)
                        && (len * DEPTH).is_multiple_of(THREADS_PER_AXIS * THREADS_PER_AXIS)
                );
                // The accesses are aligned and whole.
                assert!((len / THREADS_PER_AXIS).is_power_of_two());
            }
        }
    }
}

//! Products of matrices by tiles: what runs where no library is.
//!
//! A cube makes a tile, of 64 x 64 elements if nothing is said. 16 columns of the left matrix and 16 rows of the right one are laid down in
//! shared memory at a time, as they are computed in, and each of 256 threads makes some neighbouring elements of the tile: 4 x 4 of 64 x 64. Strides are
//! any: whichever axis of a matrix lies side by side is the one that neighbouring threads load along.

use super::emit::{Emit, Known};
use super::passes::Plan;
use crate::ssa::{Axis, Builder, Function, Place, Position, SsaError, Val};
use crate::{Blocking, DType, Matmul};

/// Rows and columns of a tile, where nothing is said.
const TILE: [u32; 2] = [64, 64];
/// Others: large ones read less and keep more registers, small ones are for products that would else be few cubes.
const TILES: [[u32; 2]; 5] = [[128, 128], [128, 64], [64, 128], [32, 64], [32, 32]];
/// How much of k is laid down at a time.
const DEPTH: u32 = 16;
/// Threads along either axis.
const SIDE: u32 = 16;

/// How else a product can be cut up.
pub(super) fn blockings() -> impl Iterator<Item = Blocking> {
    TILES
        .iter()
        .map(|[rows, columns]| Blocking::USUAL.tile(*rows, *columns))
}

/// The tiles of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tiles {
    /// As how many cubes it runs, along x. None: there is nothing to do.
    pub cubes: u32,
}

/// How a launch of a product runs.
pub fn tiles(matmul: &Matmul, words: &[u64], blocking: Blocking) -> Tiles {
    let word = |index: usize| {
        words
            .get(index)
            .map_or(0, |word| (*word as i64).max(0))
            .unsigned_abs()
    };
    let batches = (0..matmul.batch).map(word).fold(1, u64::saturating_mul);
    let [rows, columns] = blocking.tile.unwrap_or(TILE).map(u64::from);
    let all = word(matmul.batch)
        .div_ceil(rows)
        .saturating_mul(word(matmul.batch + 1).div_ceil(columns))
        .saturating_mul(batches);
    // Cubes go on to further tiles, if there are more than a launch has cubes.
    let cubes = all.min(i32::MAX as u64) as u32;
    Tiles { cubes }
}

/// The function of a product that was checked, by the usual tiles or by one of those that [`blockings`](super::blockings) has.
///
/// # Errors
/// Its epilogue is more than a function can hold. (Or it was not checked.)
pub fn matmul(matmul: &Matmul, blocking: Blocking) -> Result<Function, SsaError> {
    let shape = blocking.tile.unwrap_or(TILE);
    let k = Builder::new("product", [SIDE, SIDE, 1]);
    let dtype = matmul.dtype;
    let (lhs, rhs) = (k.read("lhs", dtype), k.read("rhs", dtype));
    let out = k.update("out", dtype);
    let more = matmul.epilogue.iter().flat_map(|nest| &nest.buffers[1..]);
    let more: Vec<Place<'_>> = more
        .enumerate()
        .map(|(index, buffer)| k.param(format!("b{}", index + 1), buffer.dtype, buffer.mode))
        .collect();
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
        let batch = tile.batch(rest / down);
        let sums = tile.sums([lhs, rhs], &batch, [row, column]);
        tile.store(
            sums,
            [out].into_iter().chain(more.iter().copied()).collect(),
            batch,
            [row, column],
        );
    });
    k.build()
}

struct Tile<'k, 'n> {
    k: &'k Builder,
    matmul: &'n Matmul,
    words: &'n [Val<'k>],
    /// Rows and columns.
    shape: [u32; 2],
    left: Place<'k>,
    right: Place<'k>,
}

impl<'k> Tile<'k, '_> {
    fn word(&self, index: usize) -> Val<'k> {
        self.words[index].bits(DType::I64)
    }

    /// The index of a batch along each of its axes.
    fn batch(&self, nth: Val<'k>) -> Vec<Val<'k>> {
        let mut rest = nth;
        let mut at = Vec::new();
        for axis in (0..self.matmul.batch).rev() {
            let len = self.word(axis);
            let above = rest / len;
            at.push(rest - above * len);
            rest = above;
        }
        at.reverse();
        at
    }

    /// Where a batch of the nth of the three buffers begins, and its two strides.
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

    /// Rows and columns of a thread.
    fn each(&self) -> [u32; 2] {
        self.shape.map(|len| len / SIDE)
    }

    /// Lays a piece of a matrix down: `DEPTH` rows of `width` elements, as `[k][along]`. What is beyond the matrix is zero.
    fn lay(
        &self,
        (to, width): (Place<'k>, u32),
        from: Place<'k>,
        (base, [stride, stride_k]): (Val<'k>, [Val<'k>; 2]),
        ([start, start_k], [len, len_k]): ([Val<'k>; 2], [Val<'k>; 2]),
    ) {
        let k = self.k;
        let thread = k.position(Position::Thread, Axis::Y) * i64::from(SIDE) + k.thread();
        let dtype = to.dtype();
        // Neighbouring threads along k, if that is how the elements lie. All threads agree on it.
        let along_k = stride_k.eq(1);
        k.unrolled(width * DEPTH / (SIDE * SIDE), |turn| {
            let nth = turn * i64::from(SIDE * SIDE) + thread;
            let place = along_k.select(nth / i64::from(DEPTH), nth % i64::from(width));
            let depth = along_k.select(nth % i64::from(DEPTH), nth / i64::from(width));
            let (at, at_k) = (start + place, start_k + depth);
            let element = k.var("laid", k.bits(dtype, 0));
            k.when(at.lt(len) & at_k.lt(len_k), || {
                let value = from.get(base + at * stride + at_k * stride_k);
                element.set(value.cast(dtype));
            });
            to.set(depth * i64::from(width) + place, element.get());
        });
    }

    /// The sums of a thread: its rows, each of its columns.
    fn sums(
        &self,
        [lhs, rhs]: [Place<'k>; 2],
        batch: &[Val<'k>],
        [row, column]: [Val<'k>; 2],
    ) -> Vec<Vec<Val<'k>>> {
        let k = self.k;
        let [m, n, depth] = [0, 1, 2].map(|axis| self.word(self.matmul.batch + axis));
        let (left_base, left_strides) = self.matrix(0, batch);
        let (right_base, [right_k, right_n]) = self.matrix(1, batch);
        let dtype = self.left.dtype();
        let zero = k.bits(dtype, 0);
        let each = self.each();
        let sums = (0..each[0] * each[1]).map(|_| k.var("sum", zero));
        let sums: Vec<_> = sums.collect();
        let (x, y) = (k.thread(), k.position(Position::Thread, Axis::Y));
        k.range(0, depth, i64::from(DEPTH), |start| {
            self.lay(
                (self.left, self.shape[0]),
                lhs,
                (left_base, left_strides),
                ([row, start], [m, depth]),
            );
            let right = (right_base, [right_n, right_k]);
            self.lay(
                (self.right, self.shape[1]),
                rhs,
                right,
                ([column, start], [n, depth]),
            );
            k.barrier();
            k.unrolled(DEPTH, |step| {
                let line = |from, thread: Val<'k>, axis: usize| {
                    let at = step * i64::from(self.shape[axis]) + thread * i64::from(each[axis]);
                    pieces(from, at, each[axis])
                };
                let (left, right) = (line(self.left, y, 0), line(self.right, x, 1));
                for (sum, (a, b)) in sums.iter().zip(pairs(&left, &right)) {
                    sum.set(self.multiply_add(a, b, sum.get()));
                }
            });
            k.barrier();
        });
        let rows = sums.chunks(each[1] as usize);
        rows.map(|row| row.iter().map(|sum| sum.get()).collect())
            .collect()
    }

    /// `a * b + sum`: of floats at once, as every library has it.
    fn multiply_add(&self, a: Val<'k>, b: Val<'k>, sum: Val<'k>) -> Val<'k> {
        if a.of().dtype.is_float() {
            return a.fma(b, sum);
        }
        a * b + sum
    }

    /// Stores a thread's elements, or what the epilogue makes of them.
    fn store(
        &self,
        sums: Vec<Vec<Val<'k>>>,
        buffers: Vec<Place<'k>>,
        batch: Vec<Val<'k>>,
        [row, column]: [Val<'k>; 2],
    ) {
        let k = self.k;
        let [m, n] = [0, 1].map(|axis| self.word(self.matmul.batch + axis));
        let (x, y) = (k.thread(), k.position(Position::Thread, Axis::Y));
        let (base, [stride_m, stride_n]) = self.matrix(2, &batch);
        let out = buffers[0];
        let [rows, columns] = self.each().map(i64::from);
        for (i, sums) in sums.into_iter().enumerate() {
            let row = row + y * rows + i as i64;
            for (j, sum) in sums.into_iter().enumerate() {
                let column = column + x * columns + j as i64;
                k.when(row.lt(m) & column.lt(n), || {
                    let product = sum.cast(out.dtype());
                    let Some(nest) = &self.matmul.epilogue else {
                        return out.set(base + row * stride_m + column * stride_n, product);
                    };
                    let emit = Emit {
                        k,
                        nest,
                        words: &self.words[self.matmul.epilogue_words()..],
                        buffers: buffers.clone(),
                        lanes: 1,
                        product: Some(product),
                    };
                    let at: Vec<Val<'k>> = batch.iter().copied().chain([row, column]).collect();
                    epilogue(&emit, &at);
                });
            }
        }
    }
}

/// All that an epilogue does to one element: it has outer axes alone.
fn epilogue<'k>(emit: &Emit<'k, '_>, at: &[Val<'k>]) {
    let plan = Plan::of(emit.nest);
    let mut known: Known<'k> = vec![None; emit.nest.values.len()];
    for id in &plan.first {
        known[usize::from(*id)] = Some(emit.value(*id, at, &known));
    }
    for store in 0..emit.nest.stores.len() {
        emit.store(store, at, &known);
    }
}

/// Neighbours of shared memory, by accesses as wide as they may be.
fn pieces<'k>(from: Place<'k>, at: Val<'k>, count: u32) -> Vec<Val<'k>> {
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
    fn every_thread_lays_down_as_much_and_makes_as_many_elements() {
        for tile in TILES.iter().chain([&TILE]) {
            for len in tile {
                assert!(len.is_multiple_of(SIDE) && (len * DEPTH).is_multiple_of(SIDE * SIDE));
                // Their pieces are aligned, and whole.
                assert!((len / SIDE).is_power_of_two());
            }
        }
    }
}

//! Products of matrices. `gemm` computes floats, and halves widened to `f32`; loops of this crate compute few rows,
//! and integers.
//!
//! A product is split into tiles, each of which is a piece: usually some rows and all columns. The epilogue runs on a
//! tile while it is in the cache.

mod dots;
mod gemm;
mod integers;
mod product;

use std::ops::Range;

use dots::Dots;
use half::bf16;
use millstream_ir::nest::Access;
use millstream_ir::{Blocking, DType, Matmul};
use millstream_protocol::NativeView;
use product::{Matrix, Product};

use crate::COST_UNIT;
use crate::kernels::with_type;
use crate::launch::{Window, offset, overlap, resolve};
use crate::nest::NestCode;
use crate::options::Options;
use crate::prepare_error::{CompileError, too_many_axes};
use crate::team::{RunError, SingleThread, Team};
use millstream_loops::half::F16;
use millstream_loops::level::{Level, Loop, kernel};

/// The least rows and columns of a tile by default, which threads share.
const TILE: [u32; 2] = [256, Blocking::ALL];

/// The same if there are too few rows for two tiles, so that threads can share only columns; and for a single row,
/// where only reading the other matrix matters, which is faster in longer stretches.
const TILE_OF_FEW_ROWS: [u32; 2] = [256, 256];
const TILE_OF_ONE_ROW: [u32; 2] = [256, 1024];

/// Alternative tiles, which may be faster although wide ones leave the cache. None has fewer rows than 128, because
/// then `gemm` sums a few columns in another order.
const TILES: [[u32; 2]; 7] = [
    [128, Blocking::ALL],
    [512, Blocking::ALL],
    [Blocking::ALL, 64],
    [Blocking::ALL, 256],
    [Blocking::ALL, 1024],
    [128, 512],
    [512, 512],
];

/// Rows of tiles below each other that a thread computes as one product: the other matrix is packed once for all of
/// them; packing takes a sixth of the time of a single tile. With more rows, the output leaves the cache before its
/// epilogue.
const ROWS_AT_ONCE: usize = 2048;

/// Multiplications per nanosecond of one thread, approximately.
const PER_NS: u64 = 64;

/// Runs a loop whose only operand is a value of its own type.
///
/// # Safety
/// The processor has the level; as the loop says.
unsafe fn run_loop<L: Loop>(level: Level, of: L) {
    let of = (&raw const of).cast::<u8>();
    // SAFETY: the caller's promises.
    unsafe { kernel::<L>(level)(of.cast_mut(), of, of, of, 0) };
}

/// A compiled product.
#[derive(Debug)]
pub(crate) struct MatmulCode {
    matmul: Matmul,
    epilogue: Option<NestCode>,
    level: Level,
    /// The least rows and columns of a tile, if the blocking sets them.
    tile: Option<[u32; 2]>,
}

/// Returns the blockings of a product besides the usual one.
pub(crate) fn blockings() -> Vec<Blocking> {
    let tiles = TILES.iter();
    tiles
        .map(|[rows, columns]| Blocking::DEFAULT.tile(*rows, *columns))
        .collect()
}

/// The split of a length into parts of equal length, of which the last also takes the remainder. `gemm` sums few rows
/// or columns differently, and results must not depend on how tiles are combined.
#[derive(Clone, Copy)]
struct Split {
    len: usize,
    part: usize,
    parts: usize,
}

impl Split {
    fn new(len: usize, part: usize) -> Self {
        let parts = (len / part).max(1);
        Self { len, part, parts }
    }

    /// Returns the elements of some neighbouring parts.
    fn elements(&self, parts: Range<usize>) -> Range<usize> {
        let end = match parts.end == self.parts {
            true => self.len,
            false => parts.end * self.part,
        };
        parts.start * self.part..end
    }
}

impl MatmulCode {
    pub(crate) fn compile(
        matmul: &Matmul,
        level: Level,
        options: Options,
    ) -> Result<Self, CompileError> {
        if matmul.dtype == DType::Bool {
            let dtype = matmul.dtype;
            return Err(format!(
                "the CPU does not support products of {dtype}; cast the factors to another type"
            ));
        }
        if matmul.batch + 2 > crate::AXES_MAX {
            return Err(too_many_axes(matmul.batch + 2));
        }
        // The epilogue is split as the product is.
        let of_epilogue = Options {
            blocking: Blocking::DEFAULT,
            ..options
        };
        let epilogue = matmul.epilogue.as_ref();
        Ok(Self {
            epilogue: epilogue
                .map(|nest| NestCode::compile(nest, level, of_epilogue))
                .transpose()?,
            matmul: matmul.clone(),
            level,
            tile: options.blocking.tile,
        })
    }

    /// As [`crate::Code::run`].
    ///
    /// # Safety
    /// As for [`crate::Code::run`].
    pub(crate) unsafe fn run(
        &self,
        views: &[NativeView],
        words: &[u64],
        team: &mut dyn Team,
    ) -> Result<(), RunError> {
        let Some(product) = self.measure(views, words)? else {
            return Ok(());
        };
        let batches: usize = product.batch.iter().map(|len| *len as usize).product();
        let usual = match product.m {
            1 => TILE_OF_ONE_ROW,
            m if m < 2 * TILE[0] as usize => TILE_OF_FEW_ROWS,
            _ => TILE,
        };
        let tile = self.tile.unwrap_or(usual).map(|len| len.max(1) as usize);
        let (rows, columns) = (
            Split::new(product.m, tile[0]),
            Split::new(product.n, tile[1]),
        );
        // `gemm` computes a single column differently, so it is not combined.
        let at_once = match product.n {
            1 => 1,
            _ => (ROWS_AT_ONCE / rows.part).max(1),
        };
        let work = |pieces: Range<u64>| {
            let (mut piece, end) = (pieces.start as usize, pieces.end as usize);
            while piece < end {
                // Pieces are numbered downwards first, then to the right.
                let (above, tile) = (piece / rows.parts, piece % rows.parts);
                let (batch, column) = (above / columns.parts, above % columns.parts);
                let count = (end - piece).min(rows.parts - tile).min(at_once);
                let (rows, columns) = (
                    rows.elements(tile..tile + count),
                    columns.elements(column..column + 1),
                );
                // SAFETY: the launch was checked; each piece runs once; the caller's promises.
                unsafe { self.piece(&product, batch, rows, columns) };
                piece += count;
            }
        };
        let multiplications = batches * product.m * product.n * product.k.max(1);
        let ns = multiplications as u64 / PER_NS + COST_UNIT;
        let pieces = (batches * rows.parts * columns.parts) as u64;
        if pieces == 1 || !product.elements_are_disjoint() || !self.epilogue_is_local(&product) {
            work(0..pieces);
            return Ok(());
        }
        team.share(pieces, ns, &work).map_err(RunError::Panic)
    }

    /// Returns `true` if the epilogue of a tile provably touches nothing that another tile writes.
    fn epilogue_is_local(&self, product: &Product<'_>) -> bool {
        let Some(nest) = &self.matmul.epilogue else {
            return true;
        };
        let words = &product.words[self.matmul.epilogue_words()..];
        let (out, integers) = (product.out, product.views[2].pointer);
        let first = &nest.accesses[0];
        let offset = offset(first, words) as isize;
        let steps = out
            .batch
            .iter()
            .map(|stride| *stride as isize)
            .chain([out.row, out.column]);
        let is_same = first
            .strides
            .iter()
            .map(|stride| resolve(*stride, words) as isize)
            .eq(steps)
            && integers.wrapping_offset(offset * self.matmul.dtype.size() as isize) == out.base;
        let is_out = |access: &Access| access.buffer == 0;
        let others = nest.accesses.iter().skip(1);
        let overlaps = |view: &NativeView| {
            let start = view.pointer.addr();
            overlap((start, start + view.bytes as usize), out.bytes)
        };
        is_same
            && !others.into_iter().any(is_out)
            && nest
                .stores
                .iter()
                .all(|store| store.access == 0 && store.scatter.is_none())
            && !product.views[3..].iter().any(overlaps)
    }

    /// Computes some rows and columns of one product of the batch, and runs the epilogue on them.
    unsafe fn piece(
        &self,
        product: &Product<'_>,
        batch: usize,
        rows: Range<usize>,
        columns: Range<usize>,
    ) {
        let axes = product.batch.len();
        let mut window = Window::default();
        let mut rest = batch;
        for axis in (0..axes).rev() {
            let len = product.batch[axis] as usize;
            window.origin[axis] = rest % len;
            window.lens[axis] = 1;
            rest /= len;
        }
        (window.origin[axes], window.lens[axes]) = (rows.start, rows.len());
        (window.origin[axes + 1], window.lens[axes + 1]) = (columns.start, columns.len());
        let size = self.matmul.dtype.size() as isize;
        let place = |matrix: &Matrix<'_>, row: usize, column: usize| {
            let steps = matrix.batch.iter().zip(&window.origin);
            let batch: isize = steps
                .map(|(stride, index)| *stride as isize * *index as isize)
                .sum();
            matrix.base.wrapping_offset(
                (batch + row as isize * matrix.row + column as isize * matrix.column) * size,
            )
        };
        let block = Product {
            m: rows.len(),
            n: columns.len(),
            lhs: Matrix {
                base: place(&product.lhs, rows.start, 0),
                ..product.lhs
            },
            rhs: Matrix {
                base: place(&product.rhs, 0, columns.start),
                ..product.rhs
            },
            out: Matrix {
                base: place(&product.out, rows.start, columns.start),
                ..product.out
            },
            ..*product
        };
        // SAFETY: `measure` checked that every element lies in its binding, and that the output overlaps neither
        // side.
        unsafe {
            match self.matmul.dtype {
                _ if block.k == 0 => block.clear(size as usize),
                // Decided for the whole product, so that each of its blocks is summed the same way.
                DType::F32 => match Dots::of(product) {
                    Some(dots) => block.dots::<f32, 8>(dots, self.level),
                    None => block.gemm_floats(gemm_f32::gemm::f32::get_gemm_fn(), 0.0, 1.0),
                },
                DType::F64 => match Dots::of(product) {
                    Some(dots) => block.dots::<f64, 4>(dots, self.level),
                    None => block.gemm_floats(gemm_f64::gemm::f64::get_gemm_fn(), 0.0, 1.0),
                },
                DType::F16 => block.gemm_halves(F16::to_f32, F16::of_f32),
                DType::Bf16 => block.gemm_halves(bf16::to_f32, bf16::from_f32),
                dtype => with_type!(dtype, T => block.integers::<T>(self.level), else ()),
            }
        }
        if let Some(epilogue) = &self.epilogue {
            let words = &product.words[self.matmul.epilogue_words()..];
            // SAFETY: the caller's promises.
            let done = unsafe {
                epilogue.run(&product.views[2..], words, Some(window), &mut SingleThread)
            };
            if let Err(why) = done {
                // The thread that runs the pieces reports the panic.
                std::panic::panic_any(format!("the epilogue was refused: {why}"));
            }
        }
    }
}

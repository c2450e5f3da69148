//! Reductions of many elements to one: along a tile into one accumulator (a *row*), or tile after tile into one
//! accumulator per lane (*lanes*).
//!
//! Accumulators of sums and products of `f32` are `f64`, so that the error does not grow with the length. Within a
//! tile, many partial results are computed side by side, for speed.

use std::marker::PhantomData;

use millstream_ir::scalar::arith::Number;

use super::map::map1;
use super::{tile, tile_mut};
use millstream_loops::cast::{Cast, To};
use millstream_loops::level::{Arithmetic, Kernel, Level, Loop, kernel};

/// The number of partial results side by side in one tile: four vectors of the widest. Element `i` goes to number `i`
/// modulo this.
pub(crate) const SIDE_BY_SIDE: usize = 64;

/// Elements combined side by side: as many vectors as hide the latency of an operation.
pub(super) const ABREAST: usize = 32;

/// The number of partial results left after combining halves, as long as that is one instruction for many.
pub(crate) const FEW: usize = 4;

/// A reduction.
pub(crate) trait Reduce<T: Copy> {
    /// The type of the accumulator between tiles.
    type Accumulator: Cast<T>;
    /// The initial value of partial results within a tile.
    const START: T;
    /// Combines two elements, or two partial results within a tile.
    fn combine(a: T, b: T) -> T;
    fn accumulate(accumulator: Self::Accumulator, value: T) -> Self::Accumulator;
}

pub(crate) struct Sum;
pub(crate) struct Prod;
pub(crate) struct Least;
pub(crate) struct Greatest;

macro_rules! same_kept {
    ($name:ident: $($t:ty),*; $start:ident, $combine:ident) => {$(
        impl Reduce<$t> for $name {
            type Accumulator = $t;
            const START: $t = <$t>::$start;
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t { a.$combine(b) }
            #[inline(always)]
            fn accumulate(accumulator: $t, value: $t) -> $t { accumulator.$combine(value) }
        }
    )*};
}

same_kept! { Sum: f64, i64, u64, i32, u32, i16, u16, i8, u8; ZERO, plus }
same_kept! { Prod: f64, i64, u64, i32, u32, i16, u16, i8, u8; ONE, times }
same_kept! { Least: f64, f32, i64, u64, i32, u32, i16, u16, i8, u8; GREATEST, least }
same_kept! { Greatest: f64, f32, i64, u64, i32, u32, i16, u16, i8, u8; LEAST, greatest }

macro_rules! wide_kept {
    ($name:ident, $start:literal, $op:tt) => {
        impl Reduce<f32> for $name {
            type Accumulator = f64;
            const START: f32 = $start;
            #[inline(always)]
            fn combine(a: f32, b: f32) -> f32 { a $op b }
            #[inline(always)]
            fn accumulate(accumulator: f64, value: f32) -> f64 { accumulator $op f64::from(value) }
        }
    };
}

wide_kept!(Sum, 0.0, +);
wide_kept!(Prod, 1.0, *);

/// Combines partial results in halves, and folds the rest one by one into an accumulator.
#[inline(always)]
fn accumulate_all<T: Copy, R: Reduce<T>>(
    accumulator: &mut R::Accumulator,
    mut partial: [T; SIDE_BY_SIDE],
) {
    let mut width = SIDE_BY_SIDE / 2;
    while width >= FEW {
        for lane in 0..width {
            partial[lane] = R::combine(partial[lane], partial[lane + width]);
        }
        width /= 2;
    }
    for value in &partial[..FEW] {
        *accumulator = R::accumulate(*accumulator, *value);
    }
}

/// Returns the partial results of a tile.
#[inline(always)]
pub(super) fn side_by_side<T: Copy, R: Reduce<T>>(a: &[T]) -> [T; SIDE_BY_SIDE] {
    let (blocks, rest) = a.as_chunks::<SIDE_BY_SIDE>();
    let mut partial = [R::START; SIDE_BY_SIDE];
    for block in blocks {
        for lane in 0..SIDE_BY_SIDE {
            partial[lane] = R::combine(partial[lane], block[lane]);
        }
    }
    for (partial, value) in partial.iter_mut().zip(rest) {
        *partial = R::combine(*partial, *value);
    }
    partial
}

/// Folds a tile into one accumulator.
struct Rows<T, R>(PhantomData<(T, R)>);

impl<T: Copy, R: Reduce<T>> Loop for Rows<T, R> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller's promises.
        let (accumulator, a) = unsafe { (&mut *d.cast::<R::Accumulator>(), tile::<T>(a, n)) };
        accumulate_all::<T, R>(accumulator, side_by_side::<T, R>(a));
    }
}

/// The streams of a long row that are read at once, so that more memory is in flight than the prefetcher requests for
/// one stream: a sum of 64 MB took 2.7 ms with one stream and 1.9 ms with eight. The blocks of each that are combined
/// before accumulating have as many elements as a tile.
const STREAMS: usize = 8;
const BLOCKS_KEPT: usize = 8;

/// Elements of a long row that is read in streams: two pages of each, for `f32`.
pub(crate) const LONG: usize = STREAMS * 2048;

/// Folds a long row into one accumulator.
struct LongRows<T, R>(PhantomData<(T, R)>);

impl<T: Copy, R: Reduce<T>> Loop for LongRows<T, R> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        // SAFETY: the caller's promises.
        let (accumulator, row) = unsafe { (&mut *d.cast::<R::Accumulator>(), tile::<T>(a, n)) };
        let (chunks, rest) = row.as_chunks::<LONG>();
        for chunk in chunks {
            let streams = chunk.as_chunks::<{ LONG / STREAMS }>().0;
            for start in (0..LONG / STREAMS).step_by(BLOCKS_KEPT * SIDE_BY_SIDE) {
                let mut partial = [R::START; SIDE_BY_SIDE];
                for block in 0..BLOCKS_KEPT {
                    for stream in streams {
                        let from = &stream[start + block * SIDE_BY_SIDE..];
                        for lane in 0..SIDE_BY_SIDE {
                            partial[lane] = R::combine(partial[lane], from[lane]);
                        }
                    }
                }
                accumulate_all::<T, R>(accumulator, partial);
            }
        }
        for part in rest.chunks(BLOCKS_KEPT * STREAMS * SIDE_BY_SIDE) {
            // SAFETY: the caller's promises; a part of the row.
            unsafe { Rows::<T, R>::run::<A>(d, part.as_ptr().cast(), b, c, part.len()) };
        }
    }
}

/// Folds the partial results of a tile into one accumulator.
struct Partials<T, R>(PhantomData<(T, R)>);

impl<T: Copy, R: Reduce<T>> Loop for Partials<T, R> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, _: *const u8, _: *const u8, _: usize) {
        // SAFETY: the caller's promises.
        let (accumulator, partials) =
            unsafe { (&mut *d.cast::<R::Accumulator>(), tile::<T>(a, FEW)) };
        for value in partials {
            *accumulator = R::accumulate(*accumulator, *value);
        }
    }
}

/// Folds a tile into one accumulator per lane.
struct Lanes<T, R>(PhantomData<(T, R)>);

impl<T: Copy, R: Reduce<T>> Loop for Lanes<T, R> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller's promises.
        let (d, a) = unsafe { (tile_mut::<R::Accumulator>(d, n), tile::<T>(a, n)) };
        for (accumulator, value) in d.iter_mut().zip(a) {
            *accumulator = R::accumulate(*accumulator, *value);
        }
    }
}

/// Rows that are combined before accumulating: each accumulator is read and written once for all of them.
pub(crate) const ROWS_AT_ONCE: usize = 8;

/// Tiles at a distance of `apart` bytes.
#[repr(C)]
pub(crate) struct Stack {
    pub(crate) apart: isize,
    /// At most [`ROWS_AT_ONCE`].
    pub(crate) count: usize,
}

/// Folds several tiles into one accumulator per lane. `a` is the first tile, and `b` the [`Stack`].
struct Stacks<T, R>(PhantomData<(T, R)>);

impl<T: Copy, R: Reduce<T>> Loop for Stacks<T, R> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller's promises.
        let (d, stack) = unsafe { (tile_mut::<R::Accumulator>(d, n), &*b.cast::<Stack>()) };
        // SAFETY: as above.
        let row =
            |index: usize| unsafe { tile::<T>(a.wrapping_offset(index as isize * stack.apart), n) };
        let (blocks, rest) = d.as_chunks_mut::<ABREAST>();
        let start = blocks.len() * ABREAST;
        for (number, accumulator) in blocks.iter_mut().enumerate() {
            let mut all = [R::START; ABREAST];
            for index in 0..stack.count {
                let block = &row(index).as_chunks::<ABREAST>().0[number];
                for lane in 0..ABREAST {
                    all[lane] = R::combine(all[lane], block[lane]);
                }
            }
            for lane in 0..ABREAST {
                accumulator[lane] = R::accumulate(accumulator[lane], all[lane]);
            }
        }
        for (lane, accumulator) in rest.iter_mut().enumerate() {
            let all = (0..stack.count).map(|index| row(index)[start + lane]);
            *accumulator = R::accumulate(*accumulator, all.fold(R::START, R::combine));
        }
    }
}

/// The loops of one reduction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reducer {
    /// The bits of an accumulator that has no elements, and its bytes.
    pub(crate) neutral: u64,
    pub(crate) accumulator_bytes: usize,
    /// Folds tile `a` into accumulator `d`. For an index, `b` is its element, and `c` the index of the tile's first
    /// element.
    pub(crate) row: Kernel,
    /// The same for a contiguous row of any length, best from [`LONG`] elements on; `None` for indices.
    pub(crate) long_row: Option<Kernel>,
    /// Folds the [`FEW`] partial results `a` of a tile into accumulator `d`.
    pub(crate) partials: Kernel,
    /// The same for one accumulator per lane.
    pub(crate) lanes: Kernel,
    /// The same for a [`Stack`] `b` of tiles, of which `a` is the first; `None` for indices and products.
    pub(crate) stack: Option<Kernel>,
    /// Writes the results of the accumulators `a` to `d`; `b` is a scalar, zero.
    pub(crate) end: Kernel,
    /// Whether the accumulator is an index, with an element.
    pub(crate) is_index: bool,
}

/// Returns the loops of a reduction.
pub(super) fn of<T: Copy, R: Reduce<T>>(neutral: u64, level: Level) -> Reducer {
    Reducer {
        neutral,
        accumulator_bytes: size_of::<R::Accumulator>(),
        row: kernel::<Rows<T, R>>(level),
        long_row: Some(kernel::<LongRows<T, R>>(level)),
        partials: kernel::<Partials<T, R>>(level),
        lanes: kernel::<Lanes<T, R>>(level),
        stack: Some(kernel::<Stacks<T, R>>(level)),
        end: map1::<R::Accumulator, To<T>>(level),
        is_index: false,
    }
}

//! The index of the least or the greatest element, the first one if there are several: along a tile (a *row*), or
//! tile after tile with one index per lane (*lanes*). A NaN wins over any number, both as least and as greatest.

use std::marker::PhantomData;

use millstream_ir::scalar::arith::Number;
use millstream_ir::{BinaryOp, DType};

use super::map::binary;
use super::reduce::{ABREAST, Greatest, Least, Reduce, Reducer, SIDE_BY_SIDE};
use super::{tile, tile_mut};
use crate::lanes::prefetch;
use millstream_loops::level::{Arithmetic, Level, Loop, kernel};

/// No element was seen yet.
const NONE: i64 = -1;

/// The order of elements for an index.
pub(crate) trait Better<T: Number> {
    /// Whether a number other than NaN comes before another.
    fn is_ahead(value: T, best: T) -> bool;

    #[inline(always)]
    fn better(value: T, best: T) -> bool {
        Self::is_ahead(value, best) || (value.is_nan() && !best.is_nan())
    }
}

impl<T: Number> Better<T> for Least {
    #[inline(always)]
    fn is_ahead(value: T, best: T) -> bool {
        value < best
    }
}

impl<T: Number> Better<T> for Greatest {
    #[inline(always)]
    fn is_ahead(value: T, best: T) -> bool {
        value > best
    }
}

/// Folds a tile into one index `d` and its element `b`, both of which are written; `c` is the index of the tile's
/// first element.
struct ArgRows<T, R>(PhantomData<(T, R)>);

impl<T: Number, R: Reduce<T, Accumulator = T> + Better<T>> Loop for ArgRows<T, R> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        // SAFETY: the caller's promises.
        let (index, a, best, first) = unsafe {
            let best = &mut *b.cast_mut().cast::<T>();
            (
                &mut *d.cast::<i64>(),
                tile::<T>(a, n),
                best,
                *c.cast::<i64>(),
            )
        };
        if n == 0 {
            return;
        }
        let (place, found) = best_of::<T, R>(a);
        if *index == NONE || R::better(found, *best) {
            (*index, *best) = (first + place as i64, found);
        }
    }
}

/// Bytes that a search prefetches ahead, because it is faster than memory.
const SEARCHED_AHEAD: usize = 2048;

/// Returns the best element, and its first index.
#[inline(always)]
fn best_of<T: Number, R: Reduce<T, Accumulator = T> + Better<T>>(a: &[T]) -> (usize, T) {
    // NaNs are skipped, and searched for at the end.
    let better = |one: T, other: T| if R::is_ahead(other, one) { other } else { one };
    let (blocks, rest) = a.as_chunks::<ABREAST>();
    let mut best = [R::START; ABREAST];
    let mut nans = [0_u32; ABREAST];
    for block in blocks {
        for byte in (0..size_of_val(block)).step_by(64) {
            let here = block.as_ptr().cast::<u8>();
            prefetch(here.wrapping_add(SEARCHED_AHEAD + byte));
        }
        for lane in 0..ABREAST {
            best[lane] = better(best[lane], block[lane]);
            nans[lane] |= u32::from(block[lane].is_nan());
        }
    }
    if nans.iter().fold(0, |all, nan| all | nan) != 0 || rest.iter().any(|value| value.is_nan()) {
        let place = first_of(a, T::is_nan);
        return (place, a[place]);
    }
    let mut width = ABREAST / 2;
    while width > 0 {
        for lane in 0..width {
            best[lane] = better(best[lane], best[lane + width]);
        }
        width /= 2;
    }
    let found = rest.iter().copied().fold(best[0], better);
    (first_of(a, |value| value == found), found)
}

/// Returns the index of the first element for which `holds`, or 0: block by block, which vectorizes, and then by
/// parts of the block that has it.
#[inline(always)]
fn first_of<T: Copy>(a: &[T], holds: impl Fn(T) -> bool) -> usize {
    let before = blocks_before::<T, SIDE_BY_SIDE>(a, &holds);
    let before = before + blocks_before::<T, 8>(&a[before..], &holds);
    let place = a[before..].iter().position(|value| holds(*value));
    place.map_or(0, |place| before + place)
}

/// Returns the number of elements in the blocks before the first one with an element for which `holds`.
#[inline(always)]
fn blocks_before<T: Copy, const N: usize>(a: &[T], holds: &impl Fn(T) -> bool) -> usize {
    let has = |block: &&[T; N]| {
        let any = block.iter().map(|value| u32::from(holds(*value)));
        any.fold(0, |any, holds| any | holds) != 0
    };
    let blocks = a.as_chunks::<N>().0.iter();
    blocks.take_while(|block| !has(block)).count() * N
}

/// Folds a tile into as many indices `d` and their elements `b`, both of which are written; `c` is the index of all
/// of the tile's elements.
struct ArgLanes<T, R>(PhantomData<(T, R)>);

impl<T: Number, R: Better<T>> Loop for ArgLanes<T, R> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        // SAFETY: the caller's promises.
        let (indices, a, best, here) = unsafe {
            let best = tile_mut::<T>(b.cast_mut(), n);
            (
                tile_mut::<i64>(d, n),
                tile::<T>(a, n),
                best,
                *c.cast::<i64>(),
            )
        };
        for ((index, best), value) in indices.iter_mut().zip(best).zip(a) {
            let takes = *index == NONE || R::better(*value, *best);
            *best = if takes { *value } else { *best };
            *index = if takes { here } else { *index };
        }
    }
}

/// Returns the loops of such a reduction.
pub(super) fn reducer<T: Number, R: Reduce<T, Accumulator = T> + Better<T>>(
    level: Level,
) -> Option<Reducer> {
    Some(Reducer {
        neutral: NONE as u64,
        accumulator_bytes: size_of::<i64>(),
        row: kernel::<ArgRows<T, R>>(level),
        // Unused: no loop leaves partial results of these.
        partials: kernel::<ArgRows<T, R>>(level),
        lanes: kernel::<ArgLanes<T, R>>(level),
        stack: None,
        long_row: None,
        // 0 if there was no element.
        end: binary(BinaryOp::Max, DType::I64, [false, true], level)?,
        is_index: true,
    })
}

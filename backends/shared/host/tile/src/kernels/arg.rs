//! The index of the least or the greatest element, the first one if there are several: along a tile (a *row*), or
//! tile after tile with one index per lane (*lanes*). A NaN wins over any number, both as least and as greatest.

use std::marker::PhantomData;

use millstream_ir::scalar::arith::Number;
use millstream_ir::{BinaryOp, DType};

use super::map::binary;
use super::reduce::{Reduce, Reducer, SIDE_BY_SIDE, side_by_side};
use super::{tile, tile_mut};
use crate::level::{Arithmetic, Level, Loop, kernel};

/// No element was seen yet.
const NONE: i64 = -1;

/// Returns `true` if an element comes before the best one so far.
#[inline(always)]
fn is_better<T: Number, R: Reduce<T>>(value: T, best: T) -> bool {
    R::combine(best, value) != best && !best.is_nan()
}

/// Folds a tile into one index `d` and its element `b`, both of which are written; `c` is the index of the tile's
/// first element.
struct ArgRows<T, R>(PhantomData<(T, R)>);

impl<T: Number, R: Reduce<T>> Loop for ArgRows<T, R> {
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
        let partial = side_by_side::<T, R>(a);
        let found = partial.into_iter().fold(R::START, R::combine);
        if *index == NONE || is_better::<T, R>(found, *best) {
            let place = match found.is_nan() {
                true => first_of(a, T::is_nan),
                false => first_of(a, |value| value == found),
            };
            (*index, *best) = (first + place as i64, found);
        }
    }
}

/// Returns the index of the first element for which `holds`, which exists: block by block, and then within the block
/// that has it. Both loops vectorize.
#[inline(always)]
fn first_of<T: Copy>(a: &[T], holds: impl Fn(T) -> bool) -> usize {
    let has = |block: &&[T; SIDE_BY_SIDE]| {
        let any = block.iter().map(|value| u32::from(holds(*value)));
        any.fold(0, |any, holds| any | holds) != 0
    };
    let blocks = a.as_chunks::<SIDE_BY_SIDE>().0.iter();
    let before = blocks.take_while(|block| !has(block)).count() * SIDE_BY_SIDE;
    let block = a[before..].iter().take(SIDE_BY_SIDE).zip(0_u32..);
    let place = block.fold(u32::MAX, |first, (value, place)| {
        let here = if holds(*value) { place } else { u32::MAX };
        first.min(here)
    });
    before + place as usize
}

/// Folds a tile into as many indices `d` and their elements `b`, both of which are written; `c` is the index of all
/// of the tile's elements.
struct ArgLanes<T, R>(PhantomData<(T, R)>);

impl<T: Number, R: Reduce<T>> Loop for ArgLanes<T, R> {
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
            let takes = *index == NONE || is_better::<T, R>(*value, *best);
            *best = if takes { *value } else { *best };
            *index = if takes { here } else { *index };
        }
    }
}

/// Returns the loops of such a reduction.
pub(super) fn reducer<T: Number, R: Reduce<T>>(level: Level) -> Option<Reducer> {
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

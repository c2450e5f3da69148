//! Fills, ramps and masks. Every processor has these loops.

use std::marker::PhantomData;

use millstream_loops::level::{Arithmetic, Kernel, Level, Loop, kernel, usual_kernel};
use millstream_loops::operation::{operand, tile, tile_mut};

use super::by_size;

/// Elements that a loop reads at once: a few vectors.
const BLOCK: usize = 16;

/// Fills a column with a scalar.
struct Fill<T>(PhantomData<T>);

impl<T: Copy> Loop for Fill<T> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller's promises; a scalar is one element.
        unsafe { tile_mut::<T>(d, n).fill(*a.cast()) };
    }
}

/// Returns the loop that fills a column with a scalar.
pub(crate) fn fill(size: usize, level: Level) -> Kernel {
    by_size!(size, T => kernel::<Fill<T>>(level))
}

/// Fills a column with a first value and a distance, which are scalars.
struct Ramp;

impl Loop for Ramp {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller's promises; a scalar is one element.
        let (d, first, step) =
            unsafe { (tile_mut::<u64>(d, n), *a.cast::<u64>(), *b.cast::<u64>()) };
        for (index, d) in d.iter_mut().enumerate() {
            *d = first.wrapping_add(step.wrapping_mul(index as u64));
        }
    }
}

/// Returns the loop that fills a column with a ramp.
pub(crate) fn ramp(level: Level) -> Kernel {
    kernel::<Ramp>(level)
}

/// Replaces the elements of a column whose mask is set by those of another, or by a scalar. `b` is the mask.
struct Blend<T, const SCALAR: bool>(PhantomData<T>);

impl<T: Copy, const SCALAR: bool> Loop for Blend<T, SCALAR> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller's promises; the indices are those of `d`.
        let a = unsafe { operand::<T, SCALAR>(a) };
        // SAFETY: as above.
        let (d, mask) = unsafe { (tile_mut::<T>(d, n), tile::<u8>(b, n)) };
        let blend = |index: usize, d: T, mask: u8| if mask != 0 { a(index) } else { d };
        // Blocks are read before they are written: rustc does not know that the columns are different ones.
        let (blocks, rest) = d.as_chunks_mut::<BLOCK>();
        let (masks, rest_of_mask) = mask.as_chunks::<BLOCK>();
        let first_of_rest = blocks.len() * BLOCK;
        for (nth, (d, mask)) in blocks.iter_mut().zip(masks).enumerate() {
            let new: [T; BLOCK] = std::array::from_fn(|lane| a(nth * BLOCK + lane));
            *d = std::array::from_fn(|lane| if mask[lane] != 0 { new[lane] } else { d[lane] });
        }
        for (nth, (d, mask)) in rest.iter_mut().zip(rest_of_mask).enumerate() {
            *d = blend(first_of_rest + nth, *d, *mask);
        }
    }
}

/// Returns the loop that replaces elements under a mask.
pub(crate) fn blend(size: usize, scalar: bool, level: Level) -> Kernel {
    match scalar {
        true => by_size!(size, T => kernel::<Blend<T, true>>(level)),
        false => by_size!(size, T => kernel::<Blend<T, false>>(level)),
    }
}

/// Rows of `WIDTH` elements of memory: of one element each if `FILLS`, otherwise of neighbours. `b` is the distance from row to
/// row, in elements, and the number of elements that the loop writes is `n` rows.
struct Rows<T, const FILLS: bool, const WIDTH: usize>(PhantomData<T>);

impl<T: Copy, const FILLS: bool, const WIDTH: usize> Loop for Rows<T, FILLS, WIDTH> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller's promises.
        unsafe {
            let (d, apart) = (tile_mut::<[T; WIDTH]>(d, n), *b.cast::<isize>());
            let mut from = a.cast::<T>();
            for row in d {
                *row = match FILLS {
                    true => [*from; WIDTH],
                    false => *from.cast::<[T; WIDTH]>(),
                };
                from = from.wrapping_offset(apart);
            }
        }
    }
}

/// Returns the loop that copies rows of this many elements, if there is one: for those of one element, and for those of
/// neighbours.
pub(crate) fn rows(size: usize, width: usize, level: Level) -> Option<[Kernel; 2]> {
    fn of<T: Copy, const WIDTH: usize>(level: Level) -> Option<[Kernel; 2]> {
        let fills = usual_kernel::<Rows<T, true, WIDTH>>(level)?;
        Some([fills, usual_kernel::<Rows<T, false, WIDTH>>(level)?])
    }
    match (size, width) {
        (4, 8) => of::<u32, 8>(level),
        (4, 16) => of::<u32, 16>(level),
        (4, 32) => of::<u32, 32>(level),
        _ => None,
    }
}

/// The greatest of some indices as `u64`, and all bits that one of them has.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Bounded {
    pub(crate) most: u64,
    pub(crate) bits: u64,
}

/// Finds the bounds of indices: those of the mask `b` if `MASKED`. `d` is a [`Bounded`], which is written.
struct Bounds<const MASKED: bool>;

impl<const MASKED: bool> Loop for Bounds<MASKED> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller's promises.
        let indices = unsafe { tile::<u64>(a, n) };
        let mut bounded = Bounded::default();
        for (nth, index) in indices.iter().enumerate() {
            let index = match MASKED {
                // SAFETY: the caller's promises.
                true => *index & u64::from(unsafe { *b.add(nth) }).wrapping_neg(),
                false => *index,
            };
            bounded.most = bounded.most.max(index);
            bounded.bits |= index;
        }
        // SAFETY: the caller's promises.
        unsafe { d.cast::<Bounded>().write(bounded) };
    }
}

/// Returns the loops that find the bounds of indices, without and with a mask of the threads.
pub(crate) fn bounds(level: Level) -> [Kernel; 2] {
    [
        kernel::<Bounds<false>>(level),
        kernel::<Bounds<true>>(level),
    ]
}

/// Whether a mask has a thread, and whether it has all.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Counted {
    pub(crate) any: u8,
    pub(crate) all: u8,
}

/// Writes a mask: the bools `a` that are `WANT`, among the mask `b` if `MASKED`. `c` is a [`Counted`], which is written.
struct Masks<const WANT: bool, const MASKED: bool>;

impl<const WANT: bool, const MASKED: bool> Loop for Masks<WANT, MASKED> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        // SAFETY: the caller's promises.
        let (d, a) = unsafe { (tile_mut::<u8>(d, n), tile::<u8>(a, n)) };
        let (mut any, mut all) = (0, 1);
        for (index, (d, a)) in d.iter_mut().zip(a).enumerate() {
            let mut found = u8::from((*a != 0) == WANT);
            if MASKED {
                // SAFETY: the caller's promises.
                found &= unsafe { *b.add(index) };
            }
            any |= found;
            all &= found;
            *d = found;
        }
        // SAFETY: the caller's promises.
        unsafe { c.cast_mut().cast::<Counted>().write(Counted { any, all }) };
    }
}

/// The loops that write masks: first those of bools that are false, then those that are true; each without and with a mask
/// of the threads.
pub(crate) fn masks(level: Level) -> [[Kernel; 2]; 2] {
    [
        [
            kernel::<Masks<false, false>>(level),
            kernel::<Masks<false, true>>(level),
        ],
        [
            kernel::<Masks<true, false>>(level),
            kernel::<Masks<true, true>>(level),
        ],
    ]
}

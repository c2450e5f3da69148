//! Copies, gathers and scatters. Elements are bits here, so four widths cover all types.

use std::marker::PhantomData;

use millstream_ir::DType;

use super::{by_size, tile, tile_mut, with_type};
use millstream_ir::scalar::arith::Number;
use millstream_loops::level::{Arithmetic, Kernel, Level, Loop, kernel};

struct Copies<T>(PhantomData<T>);

impl<T: Copy> Loop for Copies<T> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        // An input that was loaded directly into its target is there already.
        if !std::ptr::eq(d, a) {
            // SAFETY: the caller's promises.
            unsafe { d.cast::<T>().copy_from_nonoverlapping(a.cast(), n) };
        }
    }
}

struct Fills<T>(PhantomData<T>);

impl<T: Copy> Loop for Fills<T> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller's promises; a scalar is one element.
        unsafe { tile_mut::<T>(d, n).fill(*a.cast()) };
    }
}

/// Returns the loop that copies elements.
pub(crate) fn copy(size: usize, level: Level) -> Kernel {
    by_size!(size, T => kernel::<Copies<T>>(level))
}

/// Returns the loop that fills a tile with a scalar.
pub(crate) fn fill(size: usize, level: Level) -> Kernel {
    by_size!(size, T => kernel::<Fills<T>>(level))
}

/// The parameters of a gather or scatter in one launch: the origin of the buffer's elements, and the indexed axis.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Indexed {
    pub(crate) base: *mut u8,
    pub(crate) stride: isize,
    /// The range of indices: `first..end`. For a gather, `first` is zero.
    pub(crate) first: i64,
    pub(crate) end: i64,
}

/// Gathers the elements at `base + offset + index * stride`, zero where the index is out of range.
struct Gathers<T>(PhantomData<T>);

impl<T: Copy + Default> Loop for Gathers<T> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        // SAFETY: the caller's promises; indices in range lie in the buffer, which was checked with the launch.
        unsafe {
            let (d, offsets, indices) = (tile_mut::<T>(d, n), tile::<i64>(a, n), tile::<i64>(b, n));
            let Indexed {
                base, stride, end, ..
            } = *c.cast::<Indexed>();
            for ((d, offset), index) in d.iter_mut().zip(offsets).zip(indices) {
                *d = if (0..end).contains(index) {
                    *base
                        .cast::<T>()
                        .offset(*offset as isize + *index as isize * stride)
                } else {
                    T::default()
                };
            }
        }
    }
}

/// Returns the loop that gathers elements.
pub(crate) fn gather(size: usize, level: Level) -> Kernel {
    by_size!(size, T => kernel::<Gathers<T>>(level))
}

/// Scatters elements in order: if a place occurs twice, the last one remains. `ADDS`: adds to the elements instead. `d`
/// is an [`Indexed`], which is only read.
struct Scatters<T, const ADDS: bool>(PhantomData<T>);

impl<T: Number, const ADDS: bool> Loop for Scatters<T, ADDS> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        // SAFETY: the caller's promises; indices in range lie in the buffer, which was checked with the launch.
        unsafe {
            let Indexed {
                base,
                stride,
                first,
                end,
            } = *d.cast::<Indexed>();
            let (offsets, indices, values) =
                (tile::<i64>(a, n), tile::<i64>(b, n), tile::<T>(c, n));
            for ((offset, index), value) in offsets.iter().zip(indices).zip(values) {
                if (first..end).contains(index) {
                    let place = *offset as isize + *index as isize * stride;
                    let place = base.cast::<T>().offset(place);
                    place.write(match ADDS {
                        true => place.read().plus(*value),
                        false => *value,
                    });
                }
            }
        }
    }
}

/// Returns the loop that scatters elements, if the type has one.
pub(crate) fn scatter(dtype: DType, adds: bool, level: Level) -> Option<Kernel> {
    if !adds {
        return Some(by_size!(dtype.size(), T => kernel::<Scatters<T, false>>(level)));
    }
    Some(with_type!(dtype, T => kernel::<Scatters<T, true>>(level), else return None))
}

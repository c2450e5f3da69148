//! Elements moved, gathered and scattered. They are bits here: four widths serve all types.

use std::marker::PhantomData;

use millstream_ir::DType;

use super::{tile, tile_mut, with_type};
use crate::level::{Arithmetic, Kernel, Level, Loop, kernel};
use crate::number::Number;

struct Copies<T>(PhantomData<T>);

impl<T: Copy> Loop for Copies<T> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        // A walk that lands at a target is there already.
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

macro_rules! by_size {
    ($size:expr, $t:ident => $body:expr) => {
        match $size {
            1 => {
                type $t = u8;
                $body
            }
            2 => {
                type $t = u16;
                $body
            }
            4 => {
                type $t = u32;
                $body
            }
            _ => {
                type $t = u64;
                $body
            }
        }
    };
}

pub(crate) use by_size;

/// The loop that copies elements.
pub(crate) fn copy(size: usize, level: Level) -> Kernel {
    by_size!(size, T => kernel::<Copies<T>>(level))
}

/// The loop that makes a tile of a scalar.
pub(crate) fn fill(size: usize, level: Level) -> Kernel {
    by_size!(size, T => kernel::<Fills<T>>(level))
}

/// What gathers and scatters of one launch share: where the buffer's elements are counted from, and the axis that is
/// indexed.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Indexed {
    pub(crate) base: *mut u8,
    pub(crate) stride: isize,
    /// Indices that are in range: from `first` on, of a gather from zero on, and below `end`.
    pub(crate) first: i64,
    pub(crate) end: i64,
}

/// Elements at `base + offset + index * stride`, zero where the index is out of range: from offsets and indices.
struct Gathers<T>(PhantomData<T>);

impl<T: Copy + Default> Loop for Gathers<T> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        // SAFETY: the caller's promises; what is in range lies in the buffer, which was checked of the launch.
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

/// The loop that gathers elements.
pub(crate) fn gather(size: usize, level: Level) -> Kernel {
    by_size!(size, T => kernel::<Gathers<T>>(level))
}

/// The other way, one after the other: where a place comes twice, the last one stays. `d` is an [`Indexed`], which is
/// only read.
struct Scatters<T>(PhantomData<T>);

impl<T: Copy> Loop for Scatters<T> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        // SAFETY: the caller's promises; what is in range lies in the buffer, which was checked of the launch.
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
                    base.cast::<T>().offset(place).write(*value);
                }
            }
        }
    }
}

/// As [`Scatters`], added to what is there.
struct ScatterAdds<T>(PhantomData<T>);

impl<T: Number> Loop for ScatterAdds<T> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        // SAFETY: as above.
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
                    place.write(place.read().plus(*value));
                }
            }
        }
    }
}

/// The loop that scatters elements, if there is one for the type.
pub(crate) fn scatter(dtype: DType, adds: bool, level: Level) -> Option<Kernel> {
    if !adds {
        return Some(by_size!(dtype.size(), T => kernel::<Scatters<T>>(level)));
    }
    Some(with_type!(dtype, T => kernel::<ScatterAdds<T>>(level), else return None))
}

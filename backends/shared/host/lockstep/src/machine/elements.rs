//! The loops of accesses, by the size of an element.
//!
//! Cubes run concurrently, and a function may race, so each access to a buffer that the launch may write is a relaxed atomic
//! of a whole element: nothing more is promised between cubes, and the end of the launch orders all accesses. Other memory
//! belongs to the cube, or is constant.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use millstream_ir::{BinaryOp, DType, scalar};

use super::copies::copy_shared;
use super::element::Element;

/// Evaluates an expression in which a name stands for the bits of elements of a size.
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

pub(super) use by_size;

/// Returns the bits of an element of the cube's own memory. Of a scalar, whose size is 0, there are 64.
///
/// # Safety
/// It exists.
pub(super) unsafe fn read(from: *const u8, size: usize) -> u64 {
    // SAFETY: the caller's promise.
    by_size!(size, T => unsafe { (*from.cast::<T>()).word() })
}

/// Writes the bits of an element of the cube's own memory.
///
/// # Safety
/// It exists.
pub(super) unsafe fn write(to: *mut u8, size: usize, bits: u64) {
    // SAFETY: the caller's promise.
    by_size!(size, T => unsafe { *to.cast::<T>() = bits as T });
}

/// Memory of elements of one size.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    pub(super) pointer: *mut u8,
    pub(super) len: usize,
    pub(super) size: usize,
    /// Whether other threads of the host may access it.
    pub(super) shared: bool,
}

/// Evaluates an expression with the type and the sharing of memory.
macro_rules! of_memory {
    ($memory:expr, $t:ident, $shared:ident => $body:expr) => {
        by_size!($memory.size, $t => match $memory.shared {
            true => {
                const $shared: bool = true;
                $body
            }
            false => {
                const $shared: bool = false;
                $body
            }
        })
    };
}

/// The indices of threads, and which of them are active if not all are.
#[derive(Clone, Copy)]
pub(super) struct Indices<'a> {
    pub(super) indices: &'a [i64],
    pub(super) mask: Option<&'a [u8]>,
}

impl Indices<'_> {
    /// Calls `f` with the place of each active thread in the slices, and with its index.
    #[inline(always)]
    fn each(self, mut f: impl FnMut(usize, usize)) {
        let all = self.indices.iter().enumerate();
        match self.mask {
            None => all.for_each(|(nth, index)| f(nth, *index as usize)),
            Some(mask) => all
                .filter(|(nth, _)| mask[*nth] != 0)
                .for_each(|(nth, index)| f(nth, *index as usize)),
        }
    }
}

impl Memory {
    /// Returns the bits of an element.
    ///
    /// # Safety
    /// The memory has it.
    pub(super) unsafe fn get(self, index: usize) -> u64 {
        of_memory!(self, T, SHARED => {
            // SAFETY: the caller's promise, and those of the memory.
            unsafe { T::load::<SHARED>(self.pointer.cast::<T>().add(index)).word() }
        })
    }

    /// Writes the bits of an element.
    ///
    /// # Safety
    /// The memory has it, and may be written.
    pub(super) unsafe fn set(self, index: usize, bits: u64) {
        of_memory!(self, T, SHARED => {
            // SAFETY: the caller's promise, and those of the memory.
            unsafe { (bits as T).store::<SHARED>(self.pointer.cast::<T>().add(index)) }
        });
    }

    /// Replaces the bits of an element by `to` of them, atomically. Returns what they were before. The element has 4 or 8
    /// bytes.
    ///
    /// # Safety
    /// As for [`Memory::set`].
    pub(super) unsafe fn update(self, index: usize, to: impl Fn(u64) -> u64) -> u64 {
        if !self.shared {
            // SAFETY: the caller's promise.
            return unsafe {
                let before = self.get(index);
                self.set(index, to(before));
                before
            };
        }
        // SAFETY: the caller's promise. The update always succeeds at last: `Ok` and `Err` both hold the bits before.
        unsafe {
            let place = self.pointer.add(index * self.size);
            if self.size == 8 {
                let place = AtomicU64::from_ptr(place.cast());
                let before = place.fetch_update(Relaxed, Relaxed, |bits| Some(to(bits)));
                before.unwrap_or_else(|before| before)
            } else {
                let place = AtomicU32::from_ptr(place.cast());
                let to = |bits: u32| Some(to(bits.into()) as u32);
                let before = place.fetch_update(Relaxed, Relaxed, to);
                before.unwrap_or_else(|before| before).into()
            }
        }
    }

    /// Loads `n` elements at equal distances to a column.
    ///
    /// # Safety
    /// The memory and the column have them.
    pub(super) unsafe fn load_run(self, first: usize, stride: isize, to: *mut u8, n: usize) {
        of_memory!(self, T, SHARED => {
            // SAFETY: the caller's promise.
            unsafe { load_run::<T, SHARED>(self.pointer.cast::<T>().add(first), stride, to.cast(), n) }
        });
    }

    /// Loads rows of `width` elements to a column: at one distance in each row, at another from row to row. In the column a row
    /// begins `apart` elements behind the one before it.
    ///
    /// # Safety
    /// As for [`Memory::load_run`].
    pub(super) unsafe fn load_rows(
        self,
        first: usize,
        [x, y]: [isize; 2],
        to: *mut u8,
        [width, count]: [usize; 2],
        apart: usize,
    ) {
        of_memory!(self, T, SHARED => {
            // SAFETY: the caller's promise.
            unsafe {
                let (mut from, mut to) = (self.pointer.cast::<T>().add(first), to.cast::<T>());
                for _ in 0..count {
                    load_run::<T, SHARED>(from, x, to, width);
                    (from, to) = (from.wrapping_offset(y), to.wrapping_add(apart));
                }
            }
        });
    }

    /// Adds a column or a scalar to elements with these indices, one after the other. `shared` memory is updated atomically.
    ///
    /// # Safety
    /// As for [`Memory::store_run`]. The elements have this type.
    pub(super) unsafe fn add(
        self,
        indices: Indices<'_>,
        dtype: DType,
        from: *const u8,
        step: usize,
    ) {
        macro_rules! added {
            ($t:ident, $sum:expr) => {
                indices.each(|nth, index| {
                    // SAFETY: the caller's promise.
                    unsafe {
                        let more = *from.cast::<$t>().add(nth * step);
                        let place = self.pointer.cast::<$t>().add(index);
                        *place = $sum(*place, more);
                    }
                })
            };
        }
        macro_rules! added_atomically {
            ($t:ident, $atomic:ident) => {
                indices.each(|nth, index| {
                    // SAFETY: the caller's promise. Relaxed, as all accesses to memory that cubes share.
                    unsafe {
                        let more = *from.cast::<$t>().add(nth * step);
                        let place = self.pointer.cast::<$t>().add(index);
                        $atomic::from_ptr(place).fetch_add(more, Relaxed);
                    }
                })
            };
        }
        match (dtype, self.size, self.shared) {
            (DType::F32, _, false) => added!(f32, |a: f32, b: f32| a + b),
            (DType::F64, _, false) => added!(f64, |a: f64, b: f64| a + b),
            (DType::F32 | DType::F64, _, true) => {
                let Some(sum) = scalar::binary(BinaryOp::Add, dtype) else {
                    unreachable!("floats have sums")
                };
                indices.each(|nth, index| {
                    // SAFETY: the caller's promise.
                    unsafe {
                        let more = read(from.add(nth * step * self.size), self.size);
                        self.update(index, |bits| sum(bits, more));
                    }
                });
            }
            (_, 8, false) => added!(u64, u64::wrapping_add),
            (_, _, false) => added!(u32, u32::wrapping_add),
            (_, 8, true) => added_atomically!(u64, AtomicU64),
            (_, _, true) => added_atomically!(u32, AtomicU32),
        }
    }

    /// Stores `n` elements of a column at equal distances. Of a scalar, `STEP` is 0.
    ///
    /// # Safety
    /// As for [`Memory::load_run`], and the memory may be written.
    pub(super) unsafe fn store_run<const STEP: usize>(
        self,
        first: usize,
        stride: isize,
        from: *const u8,
        n: usize,
    ) {
        of_memory!(self, T, SHARED => {
            // SAFETY: the caller's promise.
            unsafe {
                let (to, from) = (self.pointer.cast::<T>().add(first), from.cast::<T>());
                store_run::<T, SHARED, STEP>(to, stride, from, n);
            }
        });
    }

    /// Stores rows of `width` elements of a column: as [`Memory::load_rows`] loads them. Of a scalar, `STEP` is 0.
    ///
    /// # Safety
    /// As for [`Memory::store_run`].
    pub(super) unsafe fn store_rows<const STEP: usize>(
        self,
        first: usize,
        [x, y]: [isize; 2],
        from: *const u8,
        [width, count]: [usize; 2],
        apart: usize,
    ) {
        of_memory!(self, T, SHARED => {
            // SAFETY: the caller's promise.
            unsafe {
                let (mut to, mut from) = (self.pointer.cast::<T>().add(first), from.cast::<T>());
                for _ in 0..count {
                    store_run::<T, SHARED, STEP>(to, x, from, width);
                    (to, from) = (to.wrapping_offset(y), from.wrapping_add(apart * STEP));
                }
            }
        });
    }

    /// Loads elements with these indices, and an offset, to a column.
    ///
    /// # Safety
    /// As for [`Memory::load_run`].
    pub(super) unsafe fn gather(self, indices: Indices<'_>, offset: usize, to: *mut u8) {
        of_memory!(self, T, SHARED => {
            let from = self.pointer.cast::<T>();
            indices.each(|nth, index| {
                // SAFETY: the caller's promise.
                unsafe {
                    let found = T::load::<SHARED>(from.add(index + offset));
                    to.cast::<T>().add(nth).write(found);
                }
            });
        });
    }

    /// Stores elements of a column, or of a scalar, at these indices and an offset, in order.
    ///
    /// # Safety
    /// As for [`Memory::store_run`].
    pub(super) unsafe fn scatter<const STEP: usize>(
        self,
        indices: Indices<'_>,
        offset: usize,
        from: *const u8,
    ) {
        of_memory!(self, T, SHARED => {
            let to = self.pointer.cast::<T>();
            indices.each(|nth, index| {
                // SAFETY: the caller's promise.
                unsafe {
                    let value = *from.cast::<T>().add(nth * STEP);
                    value.store::<SHARED>(to.add(index + offset));
                }
            });
        });
    }
}

/// # Safety
/// The elements exist.
#[inline]
unsafe fn load_run<T: Element, const SHARED: bool>(
    from: *const T,
    stride: isize,
    to: *mut T,
    n: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match stride {
            0 => std::slice::from_raw_parts_mut(to, n).fill(T::load::<SHARED>(from)),
            1 if SHARED => copy_shared(from, to, n, from.addr()),
            1 => to.copy_from_nonoverlapping(from, n),
            2 => strided::<T, SHARED, 2>(from, to, n),
            4 => strided::<T, SHARED, 4>(from, to, n),
            _ => {
                for nth in 0..n {
                    let found = T::load::<SHARED>(from.offset(nth as isize * stride));
                    to.add(nth).write(found);
                }
            }
        }
    }
}

/// # Safety
/// The elements exist.
#[inline]
unsafe fn strided<T: Element, const SHARED: bool, const STRIDE: usize>(
    from: *const T,
    to: *mut T,
    n: usize,
) {
    for nth in 0..n {
        // SAFETY: the caller's promise.
        unsafe { to.add(nth).write(T::load::<SHARED>(from.add(nth * STRIDE))) };
    }
}

/// # Safety
/// The elements exist.
#[inline]
unsafe fn store_run<T: Element, const SHARED: bool, const STEP: usize>(
    to: *mut T,
    stride: isize,
    from: *const T,
    n: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if stride == 1 && STEP == 1 {
            return match SHARED {
                true => copy_shared(from, to, n, to.addr()),
                false => to.copy_from_nonoverlapping(from, n),
            };
        }
        for nth in 0..n {
            let value = *from.add(nth * STEP);
            value.store::<SHARED>(to.offset(nth as isize * stride));
        }
    }
}

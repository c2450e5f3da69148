//! What a cube's threads read and write: buffers of the launch, arrays of the cube, and locals.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use millstream_ir::DType;

/// A buffer of the launch.
#[derive(Clone, Copy)]
pub(crate) struct Buffer {
    pub(crate) pointer: *mut u8,
    /// In elements.
    pub(crate) len: usize,
    pub(crate) dtype: DType,
}

// Cubes run at once, and a function may race: each access is of a whole element, and Relaxed, because nothing else is
// promised between cubes. The end of a launch orders all of it.
impl Buffer {
    /// The bits of an element.
    ///
    /// # Safety
    /// The index is below the length; the memory lives, is aligned for the type, and is touched by atomics alone.
    pub(crate) unsafe fn load(self, index: usize) -> u64 {
        // SAFETY: the caller's promises.
        unsafe {
            let place = self.pointer.add(index * self.dtype.size());
            match self.dtype.size() {
                8 => AtomicU64::from_ptr(place.cast()).load(Ordering::Relaxed),
                4 => AtomicU32::from_ptr(place.cast())
                    .load(Ordering::Relaxed)
                    .into(),
                2 => AtomicU16::from_ptr(place.cast())
                    .load(Ordering::Relaxed)
                    .into(),
                _ => {
                    let byte = AtomicU8::from_ptr(place).load(Ordering::Relaxed);
                    match self.dtype {
                        DType::Bool => u64::from(byte != 0),
                        _ => byte.into(),
                    }
                }
            }
        }
    }

    /// Writes an element.
    ///
    /// # Safety
    /// As [`Buffer::load`], and the launch may write it.
    pub(crate) unsafe fn store(self, index: usize, bits: u64) {
        // SAFETY: the caller's promises.
        unsafe {
            let place = self.pointer.add(index * self.dtype.size());
            match self.dtype.size() {
                8 => AtomicU64::from_ptr(place.cast()).store(bits, Ordering::Relaxed),
                4 => AtomicU32::from_ptr(place.cast()).store(bits as u32, Ordering::Relaxed),
                2 => AtomicU16::from_ptr(place.cast()).store(bits as u16, Ordering::Relaxed),
                _ => AtomicU8::from_ptr(place).store(bits as u8, Ordering::Relaxed),
            }
        }
    }

    /// Makes an element what `to` makes of it, at once. It has 4 or 8 bytes.
    ///
    /// # Safety
    /// As [`Buffer::store`].
    pub(crate) unsafe fn update(self, index: usize, to: impl Fn(u64) -> u64) {
        let relaxed = Ordering::Relaxed;
        // SAFETY: the caller's promises.
        unsafe {
            let place = self.pointer.add(index * self.dtype.size());
            if self.dtype.size() == 8 {
                let _ = AtomicU64::from_ptr(place.cast())
                    .fetch_update(relaxed, relaxed, |bits| Some(to(bits)));
            } else {
                let _ = AtomicU32::from_ptr(place.cast())
                    .fetch_update(relaxed, relaxed, |bits| Some(to(bits.into()) as u32));
            }
        }
    }
}

/// The place of an access of so many lanes, or how it is wrong: a function that does this has a mistake.
///
/// # Panics
/// When it is out of bounds, or where no wide access may begin.
pub(crate) fn checked_index(
    name: &str,
    index: i64,
    lanes: u8,
    len: usize,
    must_align: bool,
) -> usize {
    let lanes = usize::from(lanes);
    let found = usize::try_from(index).ok();
    let end = found.and_then(|index| index.checked_add(lanes));
    match (found, end) {
        (Some(index), Some(end)) if end <= len => {
            if must_align && !index.is_multiple_of(lanes) {
                misaligned(name, index, lanes);
            }
            index
        }
        _ => out_of_bounds(name, index, lanes, len),
    }
}

#[cold]
fn out_of_bounds(name: &str, index: i64, lanes: usize, len: usize) -> ! {
    panic!("`{name}[{index}]`, {lanes} wide, is outside of its {len} elements")
}

#[cold]
fn misaligned(name: &str, index: usize, lanes: usize) -> ! {
    panic!("`{name}[{index}]` is {lanes} wide: such an access begins at a multiple of {lanes}")
}

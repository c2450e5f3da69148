//! Memory that a cube's threads access: buffers of the launch, and the bounds check of shared arrays and locals.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

use millstream_ir::{DType, scalar};

/// A buffer of the launch.
#[derive(Clone, Copy)]
pub(crate) struct Buffer {
    pub(crate) pointer: *mut u8,
    pub(crate) dtype: DType,
}

// Cubes run concurrently, and a function may race, so each access is an atomic of a whole element. Relaxed, because
// nothing more is promised between cubes; the end of the launch orders all accesses.
impl Buffer {
    /// Returns the bits of an element.
    ///
    /// # Safety
    /// The buffer has that element; the memory is live, aligned for the type, and accessed only by atomics.
    pub(crate) unsafe fn load(self, index: usize) -> u64 {
        // SAFETY: the caller's promises.
        let bits = unsafe {
            let place = self.pointer.add(index * self.dtype.size());
            match self.dtype.size() {
                8 => AtomicU64::from_ptr(place.cast()).load(Relaxed),
                4 => AtomicU32::from_ptr(place.cast()).load(Relaxed).into(),
                2 => AtomicU16::from_ptr(place.cast()).load(Relaxed).into(),
                _ => AtomicU8::from_ptr(place).load(Relaxed).into(),
            }
        };
        scalar::of_word(self.dtype, bits)
    }

    /// Writes an element.
    ///
    /// # Safety
    /// As for [`Buffer::load`], and the launch may write the buffer.
    pub(crate) unsafe fn store(self, index: usize, bits: u64) {
        // SAFETY: the caller's promises.
        unsafe {
            let place = self.pointer.add(index * self.dtype.size());
            match self.dtype.size() {
                8 => AtomicU64::from_ptr(place.cast()).store(bits, Relaxed),
                4 => AtomicU32::from_ptr(place.cast()).store(bits as u32, Relaxed),
                2 => AtomicU16::from_ptr(place.cast()).store(bits as u16, Relaxed),
                _ => AtomicU8::from_ptr(place).store(bits as u8, Relaxed),
            }
        }
    }

    /// Replaces an element by `to` of it, atomically. The element has 4 or 8 bytes.
    ///
    /// # Safety
    /// As for [`Buffer::store`].
    pub(crate) unsafe fn update(self, index: usize, to: impl Fn(u64) -> u64) {
        // SAFETY: the caller's promises.
        unsafe {
            let place = self.pointer.add(index * self.dtype.size());
            if self.dtype.size() == 8 {
                let _ = AtomicU64::from_ptr(place.cast())
                    .fetch_update(Relaxed, Relaxed, |bits| Some(to(bits)));
            } else {
                let _ = AtomicU32::from_ptr(place.cast())
                    .fetch_update(Relaxed, Relaxed, |bits| Some(to(bits.into()) as u32));
            }
        }
    }
}

/// Returns the index of an access of `lanes` elements. `site` says where the access is, for messages.
///
/// # Panics
/// If the access is out of bounds, or wide and misaligned: the function has a mistake.
pub(crate) fn checked_index(
    name: &str,
    index: i64,
    lanes: u8,
    len: usize,
    must_align: bool,
    site: impl Fn() -> String,
) -> usize {
    let lanes = usize::from(lanes);
    let found = usize::try_from(index).ok();
    let end = found.and_then(|index| index.checked_add(lanes));
    match (found, end) {
        (Some(index), Some(end)) if end <= len => {
            if must_align && !index.is_multiple_of(lanes) {
                misaligned(name, index, lanes, &site());
            }
            index
        }
        _ => out_of_bounds(name, index, lanes, len, &site()),
    }
}

#[cold]
fn out_of_bounds(name: &str, index: i64, lanes: usize, len: usize, site: &str) -> ! {
    panic!(
        "access `{name}[{index}]` of width {lanes} is out of bounds, `{name}` has {len} elements, in {site}; compare the index with the length first"
    )
}

#[cold]
fn misaligned(name: &str, index: usize, lanes: usize, site: &str) -> ! {
    panic!(
        "access `{name}[{index}]` of width {lanes} is misaligned, the index must be a multiple of {lanes}, in {site}"
    )
}

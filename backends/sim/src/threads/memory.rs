//! The elements of buffers.

use millstream_ir::{DType, scalar};
use millstream_protocol::NativeView;

/// A buffer of a launch.
#[derive(Clone, Copy)]
pub(super) struct Buffer {
    pointer: *mut u8,
    dtype: DType,
    /// The number of elements.
    pub(super) len: usize,
}

impl Buffer {
    pub(super) fn new(view: NativeView, dtype: DType) -> Self {
        Self {
            pointer: view.pointer,
            dtype,
            len: view.bytes as usize / dtype.size(),
        }
    }

    /// Returns the address of an element.
    pub(super) fn address(self, index: usize) -> usize {
        self.pointer.addr() + index * self.dtype.size()
    }

    pub(super) fn element_bytes(self) -> usize {
        self.dtype.size()
    }

    /// Returns the bits of an element.
    ///
    /// # Safety
    /// The buffer has that element. Its memory is live and initialized, and nothing else accesses it meanwhile.
    pub(super) unsafe fn load(self, index: usize) -> u64 {
        let (size, mut word) = (self.dtype.size(), [0; 8]);
        // SAFETY: the caller's promises; no element is longer than a word.
        unsafe {
            let element = self.pointer.add(index * size);
            element.copy_to_nonoverlapping(word.as_mut_ptr(), size);
        }
        scalar::of_word(self.dtype, u64::from_le_bytes(word))
    }

    /// Writes an element.
    ///
    /// # Safety
    /// As for [`Buffer::load`], and the launch may write the buffer.
    pub(super) unsafe fn store(self, index: usize, bits: u64) {
        let size = self.dtype.size();
        // SAFETY: the caller's promises; no element is longer than a word.
        unsafe {
            let element = self.pointer.add(index * size);
            element.copy_from_nonoverlapping(bits.to_le_bytes().as_ptr(), size);
        }
    }
}

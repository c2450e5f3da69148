//! Memory of the host as a page of a device.
//!
//! Blocks come zeroed from the system's allocator, which maps large ones lazily: nothing is touched where
//! one is made, and its bytes are always initialized. They are asked for with the allocator's own small
//! alignment and aligned here, because only that takes the lazy way.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// What the system's allocator is asked for: an alignment with which it zeroes large blocks lazily.
const SYSTEM_ALIGNMENT: usize = 16;

/// Zeroed memory with an alignment.
pub struct Block {
    start: NonNull<u8>,
    bytes: u64,
    /// What the allocator gave, and what it was asked for.
    block: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a block owns its memory, which is plain and which any thread may touch.
unsafe impl Send for Block {}
// SAFETY: a shared block gives out a pointer alone; who uses it when is said where that is dereferenced.
unsafe impl Sync for Block {}

impl Block {
    /// A block of so many bytes, or none where the system has none. `alignment` is a power of two.
    pub fn new(bytes: u64, alignment: usize) -> Option<Self> {
        let size = usize::try_from(bytes).ok()?.checked_add(alignment)?;
        let layout = Layout::from_size_align(size, SYSTEM_ALIGNMENT).ok()?;
        // SAFETY: the size is not zero.
        let block = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let skipped = block.addr().get().next_multiple_of(alignment) - block.addr().get();
        // SAFETY: fewer than `alignment` bytes are skipped, and the block has that many more than asked for.
        let start = unsafe { block.add(skipped) };
        Some(Self {
            start,
            bytes,
            block,
            layout,
        })
    }

    /// The first byte.
    #[inline]
    pub fn pointer(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// How many bytes there are.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, freed once.
        unsafe { dealloc(self.block.as_ptr(), self.layout) };
    }
}

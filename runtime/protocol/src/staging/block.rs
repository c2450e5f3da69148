//! Memory of the system, for staged uploads and for the pages of a device whose memory is the host's.
//!
//! Blocks come zeroed, and making one touches no memory: the system maps large ones lazily. Small ones come from the
//! system's allocator, which is asked for its own small alignment, because only that takes the lazy way. On Linux large ones are
//! mapped, so that their memory goes back to the system when they are dropped: the allocator keeps blocks of up to 32 MiB for itself.
//! The largest ask the system for huge pages: a walk across a matrix touches a page with each step.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// What the system's allocator is asked for: an alignment with which it zeroes large blocks lazily.
const SYSTEM_ALIGNMENT: usize = 16;

/// A block of this much is worth the two calls of the system that map it and give it back.
#[cfg(all(target_os = "linux", not(miri)))]
const MAPPED_BYTES_MIN: usize = 256 << 10;

/// A block of this much is worth huge pages, of 2 MiB each on most processors.
#[cfg(all(target_os = "linux", not(miri)))]
const HUGE_BYTES_MIN: usize = 4 << 20;

/// Zeroed memory with an alignment.
pub struct Block {
    start: NonNull<u8>,
    bytes: u64,
    _memory: Memory,
}

/// Where the memory of a block comes from.
enum Memory {
    /// The system's allocator: what it gave, and what it was asked for.
    Allocated(NonNull<u8>, Layout),
    #[cfg(all(target_os = "linux", not(miri)))]
    Mapped(#[expect(dead_code, reason = "it is unmapped where this is dropped")] memmap2::MmapRaw),
}

// SAFETY: a block owns its memory, which is plain and which any thread may touch.
unsafe impl Send for Block {}
// SAFETY: a shared block gives out a pointer alone; who uses it when is said where that is dereferenced.
unsafe impl Sync for Block {}

impl Memory {
    /// At least so many bytes, and the first of them; none where the system has none.
    fn new(bytes: usize) -> Option<(NonNull<u8>, Self)> {
        #[cfg(all(target_os = "linux", not(miri)))]
        if bytes >= MAPPED_BYTES_MIN {
            let memory = memmap2::MmapRaw::from(memmap2::MmapMut::map_anon(bytes).ok()?);
            if bytes >= HUGE_BYTES_MIN {
                // A system without huge pages uses small ones.
                let _ = memory.advise(memmap2::Advice::HugePage);
            }
            let start = NonNull::new(memory.as_mut_ptr())?;
            return Some((start, Self::Mapped(memory)));
        }
        let layout = Layout::from_size_align(bytes, SYSTEM_ALIGNMENT).ok()?;
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some((start, Self::Allocated(start, layout)))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match self {
            // SAFETY: allocated in `new` with this layout, freed once.
            Memory::Allocated(start, layout) => unsafe { dealloc(start.as_ptr(), *layout) },
            #[cfg(all(target_os = "linux", not(miri)))]
            Memory::Mapped(_) => {}
        }
    }
}

impl Block {
    /// A block of so many bytes, or none where the system has none. `alignment` is a power of two.
    pub fn new(bytes: u64, alignment: usize) -> Option<Self> {
        let size = usize::try_from(bytes).ok()?.checked_add(alignment)?;
        let (first, memory) = Memory::new(size)?;
        let skipped = first.addr().get().next_multiple_of(alignment) - first.addr().get();
        // SAFETY: fewer than `alignment` bytes are skipped, and the memory has that many more than asked for.
        let start = unsafe { first.add(skipped) };
        Some(Self {
            start,
            bytes,
            _memory: memory,
        })
    }

    /// The first byte.
    #[inline]
    pub fn pointer(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// How many bytes there are.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    /// What the allocator has, it may keep when the block is dropped.
    #[test]
    fn blocks_of_the_size_of_pages_are_mapped() {
        for (bytes, is_mapped) in [
            (64, false),
            (64 << 10, false),
            (256 << 10, true),
            (8 << 20, true),
        ] {
            let block = Block::new(bytes, 256);
            let memory = block.map(|block| matches!(block._memory, Memory::Mapped(_)));
            assert_eq!(memory, Some(is_mapped), "{bytes} bytes");
        }
    }
}

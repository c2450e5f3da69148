//! Blocks of system memory, for staged uploads and for the pages of devices that use host memory.
//!
//! Blocks are zeroed, and creating one touches no memory, since the system maps large blocks lazily. Small blocks
//! come from the system's allocator with its own small alignment, because only that path is lazy. On Linux large
//! blocks are mapped, so that dropping one returns its memory to the system: the allocator caches blocks of up to 32
//! MiB. For the largest blocks the system is advised to use huge pages, because a walk across a matrix touches a new
//! page at each step.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// The alignment for the system's allocator: with a larger one it does not zero large blocks lazily.
const SYSTEM_ALIGNMENT: usize = 16;

/// The smallest block for which mapping is worth its two system calls.
#[cfg(all(target_os = "linux", not(miri)))]
const MAPPED_BYTES_MIN: usize = 256 << 10;

/// The smallest block for which huge pages are worth their size, 2 MiB each on most processors.
#[cfg(all(target_os = "linux", not(miri)))]
const HUGE_BYTES_MIN: usize = 4 << 20;

/// Zeroed memory with an alignment.
pub struct Block {
    start: NonNull<u8>,
    bytes: u64,
    _memory: Memory,
}

/// The owner of a block's memory.
enum Memory {
    /// Memory of the system's allocator, with its pointer and layout.
    Allocated(NonNull<u8>, Layout),
    #[cfg(all(target_os = "linux", not(miri)))]
    Mapped(
        #[expect(dead_code, reason = "it is held for its destructor, which unmaps it")]
        memmap2::MmapRaw,
    ),
}

// SAFETY: a block owns its memory, which is plain and may be accessed by any thread.
unsafe impl Send for Block {}
// SAFETY: a shared block only returns a pointer; the code that dereferences it states who may access the memory.
unsafe impl Sync for Block {}

impl Memory {
    /// Allocates at least `bytes` bytes. Returns the first byte and the owner, or `None` if the system has no memory.
    fn new(bytes: usize) -> Option<(NonNull<u8>, Self)> {
        #[cfg(all(target_os = "linux", not(miri)))]
        if bytes >= MAPPED_BYTES_MIN {
            let memory = memmap2::MmapRaw::from(memmap2::MmapMut::map_anon(bytes).ok()?);
            if bytes >= HUGE_BYTES_MIN {
                // Without huge pages the system uses small ones.
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
    /// Allocates a block, or returns `None` if the system has no memory. `alignment` must be a power of two.
    pub fn new(bytes: u64, alignment: usize) -> Option<Self> {
        let size = usize::try_from(bytes).ok()?.checked_add(alignment)?;
        let (first, memory) = Memory::new(size)?;
        let skipped = first.addr().get().next_multiple_of(alignment) - first.addr().get();
        // SAFETY: fewer than `alignment` bytes are skipped, and the memory has `alignment` bytes more than requested.
        let start = unsafe { first.add(skipped) };
        Some(Self {
            start,
            bytes,
            _memory: memory,
        })
    }

    /// Returns a pointer to the first byte.
    #[inline]
    pub fn pointer(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the length in bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    /// The allocator may cache the memory of an allocated block after it is dropped; a mapped one returns it.
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

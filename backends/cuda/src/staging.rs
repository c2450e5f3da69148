//! Pinned blocks for copies between host and GPU. Copies from and to pageable memory make the caller of the driver wait
//! for the GPU, and the device thread must not wait.
//!
//! Blocks have one size and are reused. A longer copy takes several blocks, so that the GPU copies one while the
//! processor fills the next; small copies share a block. The clients' limits on bytes in flight bound the number of
//! blocks (I12).
//!
//! A long upload lies in pinned memory of its own from the start ([`PinnedMemory`]), and the GPU copies from there.

use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use millstream_protocol::staging::{HostBlock, HostMemory};

use crate::driver::{Code, Context, Pinned};

/// Bytes of a block: long enough that the copy takes longer than the driver call, and short enough that copying
/// overlaps with filling the next block.
pub(crate) const BLOCK_BYTES: usize = 1 << 20;

/// Small copies that share a block start at multiples of this, so that each is a whole number of aligned transfers.
const PART_ALIGNMENT: usize = 256;
/// Copies of up to this many bytes share a block.
const SMALL_BYTES: usize = BLOCK_BYTES / 4;

/// The range of a block that one copy uses.
pub(crate) struct Staged {
    block: Arc<Pinned>,
    offset: usize,
    bytes: usize,
}

impl Staged {
    pub(crate) fn start(&self) -> *mut u8 {
        // SAFETY: `take` only gives out ranges within a block.
        unsafe { self.block.start().as_ptr().add(self.offset) }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The pool of blocks.
pub(crate) struct Staging {
    context: Arc<Context>,
    free: Vec<Arc<Pinned>>,
    /// Blocks that copies in flight may still use.
    busy: Vec<Arc<Pinned>>,
    /// The block that small copies share, and the number of bytes handed out.
    shared: Option<(Arc<Pinned>, usize)>,
}

impl Staging {
    pub(crate) fn new(context: &Arc<Context>) -> Self {
        Self {
            context: context.clone(),
            free: Vec::new(),
            busy: Vec::new(),
            shared: None,
        }
    }

    /// Reserves `bytes` bytes, at most one block.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<Staged, Code> {
        debug_assert!(bytes <= BLOCK_BYTES);
        if bytes <= SMALL_BYTES {
            return self.share(bytes);
        }
        let block = self.block()?;
        self.busy.push(block.clone());
        Ok(Staged {
            block,
            offset: 0,
            bytes,
        })
    }

    /// Reserves a range of the block that small copies share.
    fn share(&mut self, bytes: usize) -> Result<Staged, Code> {
        if let Some((block, used)) = &mut self.shared
            && Arc::get_mut(block).is_some()
        {
            // No copy uses the block any more.
            *used = 0;
        }
        let (block, used) = match self.shared.take() {
            Some((block, used)) if used + bytes <= BLOCK_BYTES => (block, used),
            full => {
                self.busy.extend(full.map(|(block, _)| block));
                (self.block()?, 0)
            }
        };
        let next = (used + bytes.max(1)).next_multiple_of(PART_ALIGNMENT);
        self.shared = Some((block.clone(), next));
        Ok(Staged {
            block,
            offset: used,
            bytes,
        })
    }

    /// Returns a free block, or allocates one.
    fn block(&mut self) -> Result<Arc<Pinned>, Code> {
        match self.free.pop().or_else(|| self.reclaim()) {
            Some(block) => Ok(block),
            None => Ok(Arc::new(Pinned::new(&self.context, BLOCK_BYTES)?)),
        }
    }

    /// Moves the blocks whose copies have completed to the free list and returns one of them. A completed copy has
    /// dropped its clone of the block; `Arc::get_mut` acquires what that drop released, so the copy's accesses
    /// happen before.
    fn reclaim(&mut self) -> Option<Arc<Pinned>> {
        let mut index = 0;
        while index < self.busy.len() {
            if Arc::get_mut(&mut self.busy[index]).is_some() {
                self.free.push(self.busy.swap_remove(index));
            } else {
                index += 1;
            }
        }
        self.free.pop()
    }
}

/// Allocates pinned memory for uploads; the calling thread of an upload writes to it.
pub(crate) struct PinnedMemory(Weak<Context>);

impl PinnedMemory {
    /// Creates an allocator that works as long as the context lives.
    pub(crate) fn new(context: &Arc<Context>) -> Arc<Self> {
        Arc::new(Self(Arc::downgrade(context)))
    }
}

impl HostMemory for PinnedMemory {
    fn allocate(&self, bytes: usize) -> Option<Box<dyn HostBlock>> {
        let context = self.0.upgrade()?;
        // This runs on a client's thread, which may have another context current.
        let _current = context.push_current().ok()?;
        let pinned = Pinned::new(&context, bytes).ok()?;
        // SAFETY: the memory has `bytes` bytes, and no other code has a pointer to it yet.
        unsafe { pinned.start().as_ptr().write_bytes(0, bytes) };
        Some(Box::new(PinnedBlock { pinned, bytes }))
    }
}

struct PinnedBlock {
    pinned: Pinned,
    bytes: usize,
}

// SAFETY: pinned memory keeps its address until it is dropped, and was zeroed.
unsafe impl HostBlock for PinnedBlock {
    fn start(&self) -> NonNull<u8> {
        self.pinned.start()
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

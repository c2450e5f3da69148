//! Pinned blocks that copies between host and GPU go through, so that neither waits for the GPU on the device's
//! thread: the driver copies from and to pageable memory only while the caller waits.
//!
//! Blocks are of one size and are kept. A copy of more bytes takes several, and the GPU begins with the first while
//! the processor fills the next; small copies share one. How many there are is bounded by what clients may have in flight (I12).
//!
//! Longer uploads of clients lie in pinned memory of their own from the start ([`PinnedMemory`]): the GPU copies from there.

use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use millstream_protocol::staging::{HostBlock, HostMemory};

use crate::driver::{Code, Context, Pinned};

/// Bytes of a block: long enough that a copy takes longer than its call, short enough that copies overlap with
/// filling the next.
pub(crate) const BLOCK_BYTES: usize = 1 << 20;

/// Parts of blocks that small copies share begin at multiples of this, so that none is written in halves.
const PART_ALIGNMENT: usize = 256;
/// Copies up to this share a block with others.
const SMALL_BYTES: usize = BLOCK_BYTES / 4;

/// A part of a block that a copy uses.
pub(crate) struct Staged {
    block: Arc<Pinned>,
    offset: usize,
    bytes: usize,
}

impl Staged {
    pub(crate) fn start(&self) -> *mut u8 {
        // SAFETY: `take` gives out parts of blocks alone.
        unsafe { self.block.start().as_ptr().add(self.offset) }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The blocks, and which of them no copy uses.
pub(crate) struct Staging {
    context: Arc<Context>,
    free: Vec<Arc<Pinned>>,
    /// In use by copies up to a cursor.
    busy: Vec<Arc<Pinned>>,
    /// The block that small copies are given parts of, and how much of it is given out.
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

    /// Room for `bytes`, at most a block.
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

    /// A part of the block that small copies share.
    fn share(&mut self, bytes: usize) -> Result<Staged, Code> {
        if let Some((block, used)) = &mut self.shared
            && Arc::get_mut(block).is_some()
        {
            // All whom it was given to are done.
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

    /// A block that no copy uses.
    fn block(&mut self) -> Result<Arc<Pinned>, Code> {
        match self.free.pop().or_else(|| self.returned()) {
            Some(block) => Ok(block),
            None => Ok(Arc::new(Pinned::new(&self.context, BLOCK_BYTES)?)),
        }
    }

    /// A block that no copy uses any more: those who did have dropped their parts of it, and what they did to it is seen
    /// here (`Arc::get_mut` acquires what a drop releases).
    fn returned(&mut self) -> Option<Arc<Pinned>> {
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

/// Pinned memory for uploads, which their callers copy to.
pub(crate) struct PinnedMemory(Weak<Context>);

impl PinnedMemory {
    /// As long as the context is there.
    pub(crate) fn new(context: &Arc<Context>) -> Arc<Self> {
        Arc::new(Self(Arc::downgrade(context)))
    }
}

impl HostMemory for PinnedMemory {
    fn allocate(&self, bytes: usize) -> Option<Box<dyn HostBlock>> {
        let context = self.0.upgrade()?;
        // A client's thread.
        let _current = context.lend().ok()?;
        let pinned = Pinned::new(&context, bytes).ok()?;
        // SAFETY: the memory has `bytes` bytes, and no other code knows of it yet.
        unsafe { pinned.start().as_ptr().write_bytes(0, bytes) };
        Some(Box::new(PinnedBlock { pinned, bytes }))
    }
}

struct PinnedBlock {
    pinned: Pinned,
    bytes: usize,
}

// SAFETY: pinned memory stays where it is until it is dropped, and was zeroed.
unsafe impl HostBlock for PinnedBlock {
    fn start(&self) -> NonNull<u8> {
        self.pinned.start()
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

//! Pinned memory for staging blocks and for long uploads, which lie in pinned memory of their own from the start.

use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use millstream_gpu::StagingBlock;
use millstream_protocol::staging::{HostBlock, HostMemory};

use crate::driver::{Context, Pinned};

// SAFETY: pinned memory keeps its address until it is dropped; staging blocks are allocated with `BLOCK_BYTES` bytes.
unsafe impl StagingBlock for Pinned {
    fn start(&self) -> NonNull<u8> {
        Pinned::start(self)
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
        Some(Box::new(PinnedBlock(pinned)))
    }
}

struct PinnedBlock(Pinned);

// SAFETY: pinned memory keeps its address until it is dropped, and was zeroed.
unsafe impl HostBlock for PinnedBlock {
    fn start(&self) -> NonNull<u8> {
        self.0.start()
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

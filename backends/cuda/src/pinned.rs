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
        Some(Box::new(Pinned::new(&context, bytes).ok()?))
    }
}

// SAFETY: pinned memory keeps its address until it is dropped, and is zeroed when it is allocated.
unsafe impl HostBlock for Pinned {
    fn start(&self) -> NonNull<u8> {
        Pinned::start(self)
    }

    fn bytes(&self) -> usize {
        Pinned::bytes(self)
    }
}

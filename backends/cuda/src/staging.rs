//! Pinned blocks that copies between host and GPU go through, so that neither waits for the GPU on the device's
//! thread: the driver copies from and to pageable memory only while the caller waits.
//!
//! Blocks are of one size and are kept. A copy of more bytes takes several, and the GPU begins with the first while
//! the processor fills the next. How many there are is bounded by what clients may have in flight (I12).

use std::sync::Arc;

use crate::driver::{Code, Context, Pinned};

/// Bytes of a block: long enough that a copy takes longer than its call, short enough that copies overlap with
/// filling the next.
pub(crate) const BLOCK_BYTES: usize = 1 << 20;

/// A part of a block that a copy uses.
pub(crate) struct Staged {
    block: Arc<Pinned>,
    bytes: usize,
}

impl Staged {
    pub(crate) fn start(&self) -> *mut u8 {
        self.block.start().as_ptr()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The blocks that no copy uses.
pub(crate) struct Staging {
    context: Arc<Context>,
    free: Vec<Arc<Pinned>>,
    /// In use by copies up to a cursor, oldest first.
    busy: Vec<Arc<Pinned>>,
}

impl Staging {
    pub(crate) fn new(context: &Arc<Context>) -> Self {
        Self {
            context: context.clone(),
            free: Vec::new(),
            busy: Vec::new(),
        }
    }

    /// Room for `bytes`, at most a block.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<Staged, Code> {
        debug_assert!(bytes <= BLOCK_BYTES);
        let block = match self.free.pop().or_else(|| self.returned()) {
            Some(block) => block,
            None => Arc::new(Pinned::new(&self.context, BLOCK_BYTES)?),
        };
        self.busy.push(block.clone());
        Ok(Staged { block, bytes })
    }

    /// A block that no copy uses any more: those who did have dropped their part of it.
    fn returned(&mut self) -> Option<Arc<Pinned>> {
        let mut index = 0;
        while index < self.busy.len() {
            if Arc::strong_count(&self.busy[index]) == 1 {
                self.free.push(self.busy.swap_remove(index));
            } else {
                index += 1;
            }
        }
        self.free.pop()
    }
}

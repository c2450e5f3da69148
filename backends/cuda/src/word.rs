//! The progress of a stream as a word in host memory that the GPU writes. Reading it is one load, where querying an
//! event is a driver call. It wakes no thread, so only driven devices use it: their owner polls every frame.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_protocol::Cursor;

use crate::driver::{Code, Context, CuStream, Pinned};

/// Bytes between words, so that no two share a cache line.
const STRIDE: usize = 128;

/// The progress word of a stream.
pub(crate) struct ProgressWord {
    block: Arc<Pinned>,
    /// The offset of the word in the block.
    offset: usize,
}

impl ProgressWord {
    /// Allocates a word for each of `streams` streams, all 0. Returns none if the driver does not support such writes.
    pub(crate) fn allocate(context: &Arc<Context>, streams: usize) -> Result<Vec<Self>, Code> {
        if context.api().write_value.is_none() {
            return Ok(Vec::new());
        }
        let bytes = streams * STRIDE;
        let block = Arc::new(Pinned::new(context, bytes)?);
        // SAFETY: the block has `bytes` bytes, and nothing else has a pointer to it yet.
        unsafe { block.start().write_bytes(0, bytes) };
        let word = |index| Self {
            block: block.clone(),
            offset: index * STRIDE,
        };
        Ok((0..streams).map(word).collect())
    }

    fn atomic(&self) -> &AtomicU64 {
        // SAFETY: the offset is within the block and aligned; only the GPU writes the word, all 8 bytes at once.
        unsafe { AtomicU64::from_ptr(self.block.start().as_ptr().add(self.offset).cast()) }
    }

    /// Writes this cursor once all earlier work of the stream has completed.
    pub(crate) fn write(&self, stream: &CuStream, cursor: Cursor) -> Result<(), Code> {
        // Pinned memory has the same address on the host and on the GPU.
        stream.write_value(self.atomic().as_ptr() as u64, cursor)
    }

    /// Returns the last cursor that the GPU has written.
    pub(crate) fn completed(&self) -> Cursor {
        // Acquire: pairs with the system-wide fence that the driver issues before the GPU's write, so that all earlier
        // work of the stream, copies to the host included, happens before.
        self.atomic().load(Ordering::Acquire)
    }
}

//! How far a stream has come, as a word in memory of the host that the GPU writes: one load, where asking the driver is a
//! call. It wakes nobody, so it is for devices that are driven: their owner looks at it each frame.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_protocol::id::Cursor;

use crate::driver::{Code, Context, CuStream, Pinned};

/// Bytes between words, so that two are never in one line of a cache.
const STRIDE: usize = 128;

/// The word of a stream.
pub(crate) struct Word {
    block: Arc<Pinned>,
    at: usize,
}

impl Word {
    /// Words for so many streams, all 0; none where the GPU does not write such.
    pub(crate) fn all(context: &Arc<Context>, streams: usize) -> Result<Vec<Self>, Code> {
        if context.api().write_value.is_none() {
            return Ok(Vec::new());
        }
        let bytes = streams * STRIDE;
        let block = Arc::new(Pinned::new(context, bytes)?);
        // SAFETY: the block has so many bytes, and is ours alone.
        unsafe { block.start().write_bytes(0, bytes) };
        let word = |at| Self {
            block: block.clone(),
            at: at * STRIDE,
        };
        Ok((0..streams).map(word).collect())
    }

    fn value(&self) -> &AtomicU64 {
        // SAFETY: within the block, which is page-aligned; only the GPU writes it, and whole.
        unsafe { AtomicU64::from_ptr(self.block.start().as_ptr().add(self.at).cast()) }
    }

    /// Has the stream write this cursor once it has done what it was given.
    pub(crate) fn write(&self, stream: &CuStream, cursor: Cursor) -> Result<(), Code> {
        // Host memory has the same address on the GPU.
        stream.write_value(self.value().as_ptr() as u64, cursor)
    }

    /// The last cursor that the stream has written.
    pub(crate) fn passed(&self) -> Cursor {
        // Acquire: what the stream has done before, copies to the host among it, is seen by who sees this. The driver
        // puts a fence of the whole system before the write.
        self.value().load(Ordering::Acquire)
    }
}

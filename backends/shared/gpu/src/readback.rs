//! Copies the bytes of a finished copy from staging blocks to their landing.

use std::sync::Arc;

use millstream_protocol::{Landing, Strided};

use crate::staging::{BLOCK_BYTES, Staged, StagingBlock};

/// A copy from the GPU to a client.
pub struct Readback<B> {
    /// The destination.
    pub landing: Arc<dyn Landing>,
    /// The staging ranges that the GPU writes to, in order.
    pub blocks: Vec<Staged<B>>,
    /// The requested bytes within the staging ranges; `None` if they are all requested.
    pub layout: Option<Strided>,
}

impl<B: StagingBlock> Readback<B> {
    /// Copies the bytes from the staging ranges to the landing.
    ///
    /// # Safety
    /// The GPU has written the staging ranges and accesses them no more, and nothing else accesses the landing until
    /// the cursor of the copy is published.
    pub unsafe fn land(&self) {
        let target = self.landing.target();
        match &self.layout {
            Some(layout) => layout.for_each_run(|strided, dense, bytes| {
                self.copy_run(strided as usize, target, (dense as usize, bytes as usize));
            }),
            None => {
                let bytes = self.blocks.iter().map(Staged::bytes).sum();
                self.copy_run(0, target, (0, bytes));
            }
        }
    }

    /// Copies `bytes` bytes from offset `start` of the staging ranges to offset `place` of the landing at `target`,
    /// which has `room` bytes.
    fn copy_run(
        &self,
        mut start: usize,
        (target, room): (*mut u8, usize),
        (mut place, bytes): (usize, usize),
    ) {
        let end = place.saturating_add(bytes).min(room);
        while place < end {
            let Some(staged) = self.blocks.get(start / BLOCK_BYTES) else {
                return;
            };
            let within = start % BLOCK_BYTES;
            let count = staged.bytes().saturating_sub(within).min(end - place);
            if count == 0 {
                return;
            }
            // SAFETY: `land` has exclusive access to both, which do not overlap, and `count` bytes are within both.
            unsafe {
                std::ptr::copy_nonoverlapping(staged.start().add(within), target.add(place), count);
            }
            (start, place) = (start + count, place + count);
        }
    }
}

//! Staging: host memory that an upload is copied to before its call returns. Blocks are reused, because the system
//! provides fresh memory page by page, which takes several times as long as the copy.
//!
//! Blocks that no upload uses are kept up to a limit (I12); beyond it the longest unused block is dropped first. All
//! blocks are dropped when the epoch ends (I10).

mod block;

use std::any::Any;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use millstream_sync::facade::{Mutex, lock};

use crate::message::owned_bytes::sealed::Token;
use crate::message::{HostBytes, ReleaseToken};

pub use block::Block;

/// Shorter uploads use the allocator, which has memory of this size ready.
pub(crate) const STAGED_BYTES_MIN: usize = 64 << 10;

/// The alignment of blocks: a cache line.
const ALIGNMENT: usize = 64;

/// A block of host memory that holds an upload until it is copied to the device.
///
/// # Safety
/// [`HostBlock::start`] returns the first of [`HostBlock::bytes`] initialized bytes. They do not move while the block
/// lives, and only the block's owner accesses them.
pub unsafe trait HostBlock: Any + Send + Sync {
    /// Returns a pointer to the first byte.
    fn start(&self) -> NonNull<u8>;

    /// Returns the length in bytes.
    fn bytes(&self) -> usize;
}

/// The allocator of a device's own host memory, such as pinned memory of a GPU's driver.
pub trait HostMemory: Send + Sync {
    /// Allocates a block of at least `bytes`. May be called by any thread. If it returns `None`, the upload uses
    /// system memory.
    fn allocate(&self, bytes: usize) -> Option<Box<dyn HostBlock>>;
}

// SAFETY: a block owns its memory, which the system provides zeroed.
unsafe impl HostBlock for Block {
    fn start(&self) -> NonNull<u8> {
        self.start()
    }

    fn bytes(&self) -> usize {
        self.bytes() as usize
    }
}

/// The blocks of one epoch of a device.
#[derive(Default)]
pub struct Staging {
    memory: OnceLock<Arc<dyn HostMemory>>,
    idle: Mutex<IdleBlocks>,
}

/// Blocks that no upload uses.
#[derive(Default)]
struct IdleBlocks {
    /// In the order in which they were returned, the most recent last.
    blocks: VecDeque<Box<dyn HostBlock>>,
    bytes: u64,
    bytes_max: u64,
}

impl IdleBlocks {
    /// Takes the most recently used block that has at least `bytes` and at most twice as many.
    fn take(&mut self, bytes: usize) -> Option<Box<dyn HostBlock>> {
        let fits = bytes..=bytes.saturating_mul(2);
        let place = self
            .blocks
            .iter()
            .rposition(|block| fits.contains(&block.bytes()))?;
        let block = self.blocks.remove(place)?;
        self.bytes -= block.bytes() as u64;
        Some(block)
    }

    /// Removes the longest unused block if the limit is exceeded.
    fn surplus(&mut self) -> Option<Box<dyn HostBlock>> {
        if self.bytes <= self.bytes_max {
            return None;
        }
        let block = self.blocks.pop_front()?;
        self.bytes -= block.bytes() as u64;
        Some(block)
    }
}

impl Staging {
    /// Sets the allocator of blocks. Called while the device is opened; only the first call has an effect.
    pub(crate) fn set_memory(&self, memory: Arc<dyn HostMemory>) {
        let _ = self.memory.set(memory);
    }

    /// Sets the limit for the bytes of kept blocks.
    pub fn set_bytes_max(&self, bytes: u64) {
        lock(&self.idle).bytes_max = bytes;
    }

    /// Returns the bytes of blocks that no upload uses.
    pub fn bytes_kept(&self) -> u64 {
        lock(&self.idle).bytes
    }

    /// Drops all blocks that no upload uses.
    pub fn clear(&self) {
        let mut idle = lock(&self.idle);
        idle.bytes = 0;
        let blocks = std::mem::take(&mut idle.blocks);
        // Dropping a block calls the system, so it happens without the lock.
        drop(idle);
        drop(blocks);
    }

    /// Ends the epoch: drops all kept blocks, and keeps no block that is returned later.
    pub fn end(&self) {
        self.set_bytes_max(0);
        self.clear();
    }

    /// Returns a staged copy of `bytes`.
    pub fn copy(self: &Arc<Self>, bytes: &[u8]) -> Staged {
        match bytes.len() {
            ..STAGED_BYTES_MIN => Staged(StagedIn::Vec(bytes.to_vec())),
            len => self.filled(len, |memory| memory.copy_from_slice(bytes)),
        }
    }

    /// Returns staged memory of `bytes` bytes that `fill` has written. `fill` receives the bytes of an earlier
    /// upload, or zeros.
    pub fn filled(self: &Arc<Self>, bytes: usize, fill: impl FnOnce(&mut [u8])) -> Staged {
        let block = match bytes {
            ..STAGED_BYTES_MIN => None,
            _ => self.block(bytes),
        };
        let Some(block) = block else {
            let mut memory = vec![0; bytes];
            fill(&mut memory);
            return Staged(StagedIn::Vec(memory));
        };
        // SAFETY: only this call has the block, and at least `bytes` bytes of it are initialized.
        fill(unsafe { std::slice::from_raw_parts_mut(block.start().as_ptr(), bytes) });
        Staged(StagedIn::Block(block, bytes, self.clone()))
    }

    /// Returns a block of at least `bytes`, or `None` if there is no memory for it.
    fn block(&self, bytes: usize) -> Option<Box<dyn HostBlock>> {
        let mut idle = lock(&self.idle);
        if let Some(block) = idle.take(bytes) {
            return Some(block);
        }
        // Lengths are rounded so that uploads of similar lengths share a block.
        let step = (bytes.next_power_of_two() / 8).max(1);
        let bytes = bytes.next_multiple_of(step);
        let is_kept = bytes as u64 <= idle.bytes_max;
        drop(idle);
        match self.memory.get() {
            // A driver takes long to pin memory, and may wait for the device to free it: not worth it for one upload.
            Some(memory) if is_kept => memory.allocate(bytes),
            Some(_) => None,
            None => Some(Box::new(Block::new(bytes as u64, ALIGNMENT)?)),
        }
    }

    fn take_back(&self, block: Box<dyn HostBlock>) {
        let bytes = block.bytes() as u64;
        let mut idle = lock(&self.idle);
        if bytes > idle.bytes_max {
            // Keeping it would evict all others.
            drop(idle);
            drop(block);
            return;
        }
        idle.bytes += bytes;
        idle.blocks.push_back(block);
        while let Some(surplus) = idle.surplus() {
            // Dropping a block calls the system, so it happens without the lock.
            drop(idle);
            drop(surplus);
            idle = lock(&self.idle);
        }
    }
}

/// Bytes that are staged on their way to the device.
pub struct Staged(StagedIn);

enum StagedIn {
    /// The first bytes of a block, and the staging that it returns to.
    Block(Box<dyn HostBlock>, usize, Arc<Staging>),
    Vec(Vec<u8>),
}

impl HostBytes for Staged {
    fn bytes(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: at least `len` bytes of the block are initialized, and no other code has the block.
            StagedIn::Block(block, len, _) => unsafe {
                std::slice::from_raw_parts(block.start().as_ptr(), *len)
            },
            StagedIn::Vec(bytes) => bytes,
        }
    }

    fn release(&mut self, _: ReleaseToken) {
        self.give_back();
    }

    fn host_block(&self, _: Token) -> Option<&(dyn Any + Send + Sync)> {
        match &self.0 {
            StagedIn::Block(block, _, home) if home.memory.get().is_some() => Some(&**block),
            _ => None,
        }
    }
}

impl Staged {
    /// Returns the block to its staging.
    fn give_back(&mut self) {
        if let StagedIn::Block(block, _, home) =
            std::mem::replace(&mut self.0, StagedIn::Vec(Vec::new()))
        {
            home.take_back(block);
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1 << 10;

    fn staging(bytes_max: u64) -> Arc<Staging> {
        let staging = Arc::new(Staging::default());
        staging.set_bytes_max(bytes_max);
        staging
    }

    fn start_of(staged: &Staged) -> *const u8 {
        staged.bytes().as_ptr()
    }

    #[test]
    fn upload_reuses_the_block_of_an_earlier_one() {
        let staging = staging(1 << 20);
        let (first, second) = (vec![1; 100 * KIB], vec![2; 97 * KIB]);
        let staged = staging.copy(&first);
        assert_eq!(staged.bytes(), first);
        let start = start_of(&staged);
        drop(staged);
        let staged = staging.copy(&second);
        assert_eq!((staged.bytes(), start_of(&staged)), (&*second, start));
        // The block is in use, so another upload gets another block.
        assert_ne!(start_of(&staging.copy(&first)), start);
    }

    #[test]
    fn block_is_reused_only_for_similar_lengths_and_short_uploads_have_none() {
        let staging = staging(1 << 20);
        drop(staging.copy(&vec![0; 256 * KIB]));
        assert_eq!(staging.bytes_kept(), 256 << 10);
        drop(staging.copy(&vec![0; 64 * KIB]));
        drop(staging.copy(&vec![0; 400 * KIB]));
        assert_eq!(staging.bytes_kept(), (256 + 64 + 448) << 10);
        drop(staging.copy(&vec![0; 64 * KIB - 1]));
        assert_eq!(staging.bytes_kept(), (256 + 64 + 448) << 10);
    }

    /// I12: beyond the limit the longest unused block is dropped; a block longer than the limit is not kept at all.
    #[test]
    fn idle_blocks_are_bounded_and_the_longest_unused_is_dropped_first_i12() {
        let staging = staging(300 << 10);
        let staged = [64, 128, 256, 512].map(|kib| staging.copy(&vec![0; kib * KIB]));
        drop(staged);
        assert_eq!(
            staging.bytes_kept(),
            256 << 10,
            "the blocks of 64 and 128 KiB were dropped, that of 512 KiB was not kept"
        );
        staging.clear();
        assert_eq!(staging.bytes_kept(), 0);
    }

    /// I10: a block that is returned after the end is dropped at once.
    #[test]
    fn no_block_is_kept_after_the_epoch_has_ended_i10() {
        let staging = staging(1 << 20);
        let staged = staging.copy(&vec![0; 64 * KIB]);
        drop(staging.copy(&vec![0; 64 * KIB]));
        staging.end();
        assert_eq!(staging.bytes_kept(), 0);
        drop(staged);
        assert_eq!(staging.bytes_kept(), 0);
    }

    /// A limited amount of a device's own memory.
    struct Scarce(Mutex<usize>);

    impl HostMemory for Scarce {
        fn allocate(&self, bytes: usize) -> Option<Box<dyn HostBlock>> {
            let mut left = lock(&self.0);
            *left = left.checked_sub(bytes)?;
            Some(Box::new(Block::new(bytes as u64, ALIGNMENT)?))
        }
    }

    #[test]
    fn upload_uses_system_memory_if_the_device_has_none_of_its_own_left() {
        let staging = staging(1 << 20);
        staging.set_memory(Arc::new(Scarce(Mutex::new(100 * KIB))));
        let bytes = vec![3; 64 * KIB];
        let staged = [(); 2].map(|()| staging.copy(&bytes));
        assert_eq!(staged.each_ref().map(HostBytes::bytes), [&*bytes, &*bytes]);
        let is_in_block = |staged: &Staged| staged.host_block(Token(())).is_some();
        assert_eq!(staged.each_ref().map(is_in_block), [true, false]);
    }
}

//! Memory of the host that uploads are copied to before their caller goes on, used again and again: the system gives fresh
//! memory page by page, which takes several times as long as the copy.
//!
//! Blocks that no upload uses are kept, up to a bound; of more the longest unused go. All of them go when the epoch ends.

mod block;

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use millstream_sync::facade::{Mutex, lock};

use crate::message::HostBytes;

pub use block::Block;

/// Uploads of fewer bytes take memory of the allocator, which has as much at hand.
pub(crate) const STAGED_BYTES_MIN: usize = 64 << 10;

/// Blocks begin at multiples of a line of the cache.
const ALIGNMENT: usize = 64;

/// Memory of the host that uploads may lie in until they are copied to the device.
///
/// # Safety
/// [`HostBlock::start`] is the first of [`HostBlock::bytes`] bytes that are initialized, stay where they are while the block
/// lives, and belong to the block's owner alone.
pub unsafe trait HostBlock: Send + Sync {
    /// The first byte.
    fn start(&self) -> NonNull<u8>;

    /// How many bytes there are.
    fn bytes(&self) -> usize;
}

/// Where a device takes memory for uploads from, if it has better than the system's: pinned memory of a GPU's driver.
pub trait HostMemory: Send + Sync {
    /// A block of at least `bytes`. May be called by any thread. None where there is no memory of this kind: then the upload lies in
    /// memory of the system.
    fn allocate(&self, bytes: usize) -> Option<Box<dyn HostBlock>>;
}

// SAFETY: a block owns its memory, which the system gives zeroed.
unsafe impl HostBlock for Block {
    fn start(&self) -> NonNull<u8> {
        self.start()
    }

    fn bytes(&self) -> usize {
        self.bytes() as usize
    }
}

/// The blocks of an epoch of a device.
#[derive(Default)]
pub struct Staging {
    memory: OnceLock<Arc<dyn HostMemory>>,
    kept: Mutex<Kept>,
}

/// Blocks that no upload uses.
#[derive(Default)]
struct Kept {
    /// The one that was given back last is the last.
    blocks: VecDeque<Box<dyn HostBlock>>,
    bytes: u64,
    bytes_max: u64,
}

impl Kept {
    /// The block that was used last of those that `bytes` fit and that are not much longer.
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

    /// The block that was unused the longest, if there are too many.
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
    /// Blocks are of this memory from here on. To be said while the device is opened; only the first time counts.
    pub(crate) fn set_memory(&self, memory: Arc<dyn HostMemory>) {
        let _ = self.memory.set(memory);
    }

    /// Keeps blocks of at most `bytes` together.
    pub fn set_bytes_max(&self, bytes: u64) {
        lock(&self.kept).bytes_max = bytes;
    }

    /// Bytes of blocks that no upload uses.
    pub fn bytes_kept(&self) -> u64 {
        lock(&self.kept).bytes
    }

    /// Gives back every block that no upload uses.
    pub fn clear(&self) {
        let mut kept = lock(&self.kept);
        kept.bytes = 0;
        let blocks = std::mem::take(&mut kept.blocks);
        // The system is not called under the lock.
        drop(kept);
        drop(blocks);
    }

    /// The epoch ends: no block is kept any more, nor those that come back.
    pub fn end(&self) {
        self.set_bytes_max(0);
        self.clear();
    }

    /// A copy of `bytes`.
    pub fn copy(self: &Arc<Self>, bytes: &[u8]) -> Staged {
        match bytes.len() {
            ..STAGED_BYTES_MIN => Staged(StagedIn::Vec(bytes.to_vec())),
            len => self.filled(len, |memory| memory.copy_from_slice(bytes)),
        }
    }

    /// `bytes` bytes that `fill` writes. It finds there what an earlier upload left, or zeros.
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
        // SAFETY: the block is ours alone, and has at least `bytes` bytes, which are initialized.
        fill(unsafe { std::slice::from_raw_parts_mut(block.start().as_ptr(), bytes) });
        Staged(StagedIn::Block(block, bytes, self.clone()))
    }

    /// A block of at least `bytes`, if there is memory for it.
    fn block(&self, bytes: usize) -> Option<Box<dyn HostBlock>> {
        let mut kept = lock(&self.kept);
        if let Some(block) = kept.take(bytes) {
            return Some(block);
        }
        // Uploads of about the same length use one block in turn.
        let step = (bytes.next_power_of_two() / 8).max(1);
        let bytes = bytes.next_multiple_of(step);
        let is_kept = bytes as u64 <= kept.bytes_max;
        drop(kept);
        match self.memory.get() {
            // A driver takes long to pin memory, and may wait for the device to give it back: not for one upload.
            Some(memory) if is_kept => memory.allocate(bytes),
            Some(_) => None,
            None => Some(Box::new(Block::new(bytes as u64, ALIGNMENT)?)),
        }
    }

    fn take_back(&self, block: Box<dyn HostBlock>) {
        let bytes = block.bytes() as u64;
        let mut kept = lock(&self.kept);
        if bytes > kept.bytes_max {
            // It would only displace others.
            drop(kept);
            drop(block);
            return;
        }
        kept.bytes += bytes;
        kept.blocks.push_back(block);
        while let Some(surplus) = kept.surplus() {
            // The system is not called under the lock.
            drop(kept);
            drop(surplus);
            kept = lock(&self.kept);
        }
    }
}

/// A copy of bytes on their way to the device.
pub struct Staged(StagedIn);

enum StagedIn {
    /// The first bytes of a block, and who takes it back.
    Block(Box<dyn HostBlock>, usize, Arc<Staging>),
    Vec(Vec<u8>),
}

impl HostBytes for Staged {
    fn bytes(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: the block has at least `len` bytes, which are initialized, and no other code has it.
            StagedIn::Block(block, len, _) => unsafe {
                std::slice::from_raw_parts(block.start().as_ptr(), *len)
            },
            StagedIn::Vec(bytes) => bytes,
        }
    }

    fn let_go(&mut self) {
        if let StagedIn::Block(block, _, home) =
            std::mem::replace(&mut self.0, StagedIn::Vec(Vec::new()))
        {
            home.take_back(block);
        }
    }

    fn is_of_host_memory(&self) -> bool {
        matches!(&self.0, StagedIn::Block(_, _, home) if home.memory.get().is_some())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        self.let_go();
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
    fn an_upload_lies_where_one_before_it_lay() {
        let staging = staging(1 << 20);
        let (first, second) = (vec![1; 100 * KIB], vec![2; 97 * KIB]);
        let staged = staging.copy(&first);
        assert_eq!(staged.bytes(), first);
        let start = start_of(&staged);
        drop(staged);
        let staged = staging.copy(&second);
        assert_eq!((staged.bytes(), start_of(&staged)), (&*second, start));
        // It is in use, so another is not given it.
        assert_ne!(start_of(&staging.copy(&first)), start);
    }

    #[test]
    fn what_is_much_longer_or_shorter_is_not_used_and_few_bytes_have_no_block() {
        let staging = staging(1 << 20);
        drop(staging.copy(&vec![0; 256 * KIB]));
        assert_eq!(staging.bytes_kept(), 256 << 10);
        drop(staging.copy(&vec![0; 64 * KIB]));
        drop(staging.copy(&vec![0; 400 * KIB]));
        assert_eq!(staging.bytes_kept(), (256 + 64 + 448) << 10);
        drop(staging.copy(&vec![0; 64 * KIB - 1]));
        assert_eq!(staging.bytes_kept(), (256 + 64 + 448) << 10);
    }

    /// I12: of more than there is room for, the longest unused goes; what is longer than the room is not kept at all.
    #[test]
    fn so_much_is_kept_and_the_longest_unused_goes_first_i12() {
        let staging = staging(300 << 10);
        let staged = [64, 128, 256, 512].map(|kib| staging.copy(&vec![0; kib * KIB]));
        drop(staged);
        assert_eq!(
            staging.bytes_kept(),
            256 << 10,
            "64 and 128 went, 512 came not in"
        );
        staging.clear();
        assert_eq!(staging.bytes_kept(), 0);
    }

    /// I10: what comes back after the end goes at once.
    #[test]
    fn nothing_is_kept_once_the_epoch_has_ended_i10() {
        let staging = staging(1 << 20);
        let late = staging.copy(&vec![0; 64 * KIB]);
        drop(staging.copy(&vec![0; 64 * KIB]));
        staging.end();
        assert_eq!(staging.bytes_kept(), 0);
        drop(late);
        assert_eq!(staging.bytes_kept(), 0);
    }

    /// Memory of a device's own, of which there is little.
    struct Scarce(Mutex<usize>);

    impl HostMemory for Scarce {
        fn allocate(&self, bytes: usize) -> Option<Box<dyn HostBlock>> {
            let mut left = lock(&self.0);
            *left = left.checked_sub(bytes)?;
            Some(Box::new(Block::new(bytes as u64, ALIGNMENT)?))
        }
    }

    #[test]
    fn a_device_without_memory_of_its_own_kind_takes_the_systems() {
        let staging = staging(1 << 20);
        staging.set_memory(Arc::new(Scarce(Mutex::new(100 * KIB))));
        let bytes = vec![3; 64 * KIB];
        let staged = [(); 2].map(|()| staging.copy(&bytes));
        assert_eq!(staged.each_ref().map(HostBytes::bytes), [&*bytes, &*bytes]);
        assert_eq!(
            staged.each_ref().map(HostBytes::is_of_host_memory),
            [true, false]
        );
    }
}

//! Staging blocks for copies between host and GPU: memory that both access. A driver would make its caller wait for
//! copies from and to other host memory, and the device thread must not wait.
//!
//! Blocks have one size and are reused. A longer copy takes several blocks, so that the GPU copies one while the
//! processor fills the next; small copies share a block. The clients' limits on bytes in flight bound the number of
//! blocks (I12).

use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes of a block: long enough that the copy takes longer than the driver call, and short enough that copying
/// overlaps with filling the next block.
pub const BLOCK_BYTES: usize = 1 << 20;

/// Small copies that share a block start at multiples of this, so that each is a whole number of aligned transfers.
const PART_ALIGNMENT: usize = 256;

/// A staging block of a backend.
///
/// # Safety
/// [`StagingBlock::start`] returns the first of [`BLOCK_BYTES`] bytes, which may be uninitialized. They do not move
/// while the block lives, and host and GPU access them only as the ranges that [`Staging::take`] or [`Staged::part`] gives out.
pub unsafe trait StagingBlock: Send + Sync + 'static {
    /// Returns a pointer to the first byte.
    fn start(&self) -> NonNull<u8>;
}

/// The range of a block that one copy uses.
pub struct Staged<B> {
    block: Arc<B>,
    offset: usize,
    bytes: usize,
}

impl<B: StagingBlock> Staged<B> {
    /// Returns `bytes` bytes of a block of the caller's from byte `offset` on.
    ///
    /// # Safety
    /// The block has `offset + bytes` bytes, and no other part of it has one of these.
    pub unsafe fn part(block: Arc<B>, offset: usize, bytes: usize) -> Self {
        Self {
            block,
            offset,
            bytes,
        }
    }

    /// Returns a pointer to the first byte.
    pub fn start(&self) -> *mut u8 {
        // SAFETY: `take` and the callers of `part` only give out ranges within a block.
        unsafe { self.block.start().as_ptr().add(self.offset) }
    }

    /// Returns the length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the block, and the offset of the first byte in it.
    pub fn place(&self) -> (&B, usize) {
        (&self.block, self.offset)
    }
}

/// The pool of blocks.
pub struct Staging<B> {
    blocks: Vec<Arc<B>>,
    /// The block after the last one that was found unused. Copies complete about in the order of their blocks.
    next: usize,
    /// The block that the next copies share, and the number of its bytes handed out.
    open: Option<(usize, usize)>,
}

impl<B> Default for Staging<B> {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            next: 0,
            open: None,
        }
    }
}

impl<B: StagingBlock> Staging<B> {
    /// Reserves `bytes` bytes, at most one block. If no block is free, `allocate` allocates one of [`BLOCK_BYTES`].
    ///
    /// # Errors
    /// That of `allocate`.
    pub fn take<E>(
        &mut self,
        bytes: usize,
        allocate: impl FnOnce() -> Result<B, E>,
    ) -> Result<Staged<B>, E> {
        debug_assert!(bytes <= BLOCK_BYTES);
        let open = self.open.map(|(block, used)| match self.is_unused(block) {
            true => (block, 0),
            false => (block, used),
        });
        let (block, offset) = match open.filter(|(_, used)| used + bytes <= BLOCK_BYTES) {
            Some(open) => open,
            None => (self.unused(allocate)?, 0),
        };
        let end = (offset + bytes.max(1)).next_multiple_of(PART_ALIGNMENT);
        // The block with more room stays open.
        if open.is_none_or(|(open, used)| open == block || end < used) {
            self.open = Some((block, end));
        }
        Ok(Staged {
            block: self.blocks[block].clone(),
            offset,
            bytes,
        })
    }

    /// Reserves the ranges for a copy of `bytes` bytes, one for each block, all before the first copy, so that a lack of
    /// memory refuses the whole task.
    ///
    /// # Errors
    /// That of `allocate`.
    pub fn take_all<E>(
        &mut self,
        bytes: usize,
        allocate: impl Fn() -> Result<B, E>,
    ) -> Result<Vec<Staged<B>>, E> {
        let starts = (0..bytes).step_by(BLOCK_BYTES);
        starts
            .map(|start| self.take((bytes - start).min(BLOCK_BYTES), &allocate))
            .collect()
    }

    /// Returns a block that no copy uses. Allocates one if there is none.
    fn unused<E>(&mut self, allocate: impl FnOnce() -> Result<B, E>) -> Result<usize, E> {
        let count = self.blocks.len();
        let mut all = (self.next..count).chain(0..self.next);
        let found = all.find(|block| self.is_unused(*block));
        let block = found.unwrap_or(count);
        if found.is_none() {
            self.blocks.push(Arc::new(allocate()?));
        }
        self.next = block + 1;
        Ok(block)
    }

    /// Returns `true` if all copies from or to a block have completed, and so have dropped their clones of it.
    /// `Arc::get_mut` acquires what these drops released, so the copies' accesses happen before.
    fn is_unused(&mut self, block: usize) -> bool {
        Arc::get_mut(&mut self.blocks[block]).is_some()
    }
}

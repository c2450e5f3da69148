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
/// Copies of up to this many bytes share a block.
const SMALL_BYTES: usize = BLOCK_BYTES / 4;

/// A staging block of a backend.
///
/// # Safety
/// [`StagingBlock::start`] returns the first of [`BLOCK_BYTES`] bytes, which may be uninitialized. They do not move
/// while the block lives, and host and GPU access them only as the ranges that [`Staging::take`] gives out.
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
    /// Returns a pointer to the first byte.
    pub fn start(&self) -> *mut u8 {
        // SAFETY: `take` only gives out ranges within a block.
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
    free: Vec<Arc<B>>,
    /// Blocks that copies in flight may still use.
    busy: Vec<Arc<B>>,
    /// The block that small copies share, and the number of bytes handed out.
    shared: Option<(Arc<B>, usize)>,
}

impl<B> Default for Staging<B> {
    fn default() -> Self {
        Self {
            free: Vec::new(),
            busy: Vec::new(),
            shared: None,
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
        if bytes <= SMALL_BYTES {
            return self.share(bytes, allocate);
        }
        let block = self.block(allocate)?;
        self.busy.push(block.clone());
        Ok(Staged {
            block,
            offset: 0,
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

    /// Reserves a range of the block that small copies share.
    fn share<E>(
        &mut self,
        bytes: usize,
        allocate: impl FnOnce() -> Result<B, E>,
    ) -> Result<Staged<B>, E> {
        if let Some((block, used)) = &mut self.shared
            && Arc::get_mut(block).is_some()
        {
            // No copy uses the block any more.
            *used = 0;
        }
        let (block, used) = match self.shared.take() {
            Some((block, used)) if used + bytes <= BLOCK_BYTES => (block, used),
            full => {
                self.busy.extend(full.map(|(block, _)| block));
                (self.block(allocate)?, 0)
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

    /// Returns a free block, or allocates one.
    fn block<E>(&mut self, allocate: impl FnOnce() -> Result<B, E>) -> Result<Arc<B>, E> {
        match self.free.pop().or_else(|| self.reclaim()) {
            Some(block) => Ok(block),
            None => Ok(Arc::new(allocate()?)),
        }
    }

    /// Moves the blocks whose copies have completed to the free list and returns one of them. A completed copy has
    /// dropped its clone of the block; `Arc::get_mut` acquires what that drop released, so the copy's accesses
    /// happen before.
    fn reclaim(&mut self) -> Option<Arc<B>> {
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

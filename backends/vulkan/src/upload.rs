//! Memory of the device's own for long uploads: the caller writes to it, and the device copies from there.

use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use ash::vk;
use millstream_gpu::{BLOCK_BYTES, Staged};
use millstream_protocol::staging::{HostBlock, HostMemory};
use millstream_sync::facade::{Mutex, lock};

use crate::completer::Shared;
use crate::driver::{ALIGNMENT, Code, Context, Mapped, Purpose};

/// Allocates the memory of uploads.
pub(crate) struct UploadMemory {
    shared: Weak<Shared>,
    open: Mutex<OpenBlock>,
}

/// The memory that the next uploads of at most [`BLOCK_BYTES`] share: a driver limits the number of allocations. It is freed
/// with the last of its uploads, which the staging of the runtime keeps for the next ones.
#[derive(Default)]
struct OpenBlock {
    memory: Weak<Mapped>,
    /// The bytes that are given out.
    used: usize,
}

impl OpenBlock {
    /// Gives out `bytes` bytes, if the memory has them left.
    fn take(&mut self, bytes: usize) -> Option<Staged<Mapped>> {
        let memory = self.memory.upgrade()?;
        let offset = self.used;
        let end = offset + bytes.max(1).next_multiple_of(ALIGNMENT as usize);
        (end <= BLOCK_BYTES).then(|| {
            self.used = end;
            // SAFETY: the memory has `BLOCK_BYTES` bytes, of which each is given out once.
            unsafe { Staged::part(memory, offset, bytes) }
        })
    }
}

impl UploadMemory {
    /// Creates an allocator that works as long as the device lives.
    pub(crate) fn new(shared: &Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::downgrade(shared),
            open: Mutex::default(),
        })
    }

    fn allocate_in(&self, context: &Arc<Context>, bytes: usize) -> Result<Staged<Mapped>, Code> {
        let is_small = bytes <= BLOCK_BYTES;
        if is_small && let Some(part) = lock(&self.open).take(bytes) {
            return Ok(part);
        }
        // Outside of the lock, since the driver may take long.
        let memory = Mapped::new(context, bytes.max(BLOCK_BYTES), Purpose::Upload)?;
        let memory = Arc::new(memory);
        if is_small {
            *lock(&self.open) = OpenBlock {
                memory: Arc::downgrade(&memory),
                used: bytes.max(1).next_multiple_of(ALIGNMENT as usize),
            };
        }
        // SAFETY: the memory has at least `bytes` bytes, and other parts begin behind them.
        Ok(unsafe { Staged::part(memory, 0, bytes) })
    }
}

impl HostMemory for UploadMemory {
    fn allocate(&self, bytes: usize) -> Option<Box<dyn HostBlock>> {
        let shared = self.shared.upgrade()?;
        let memory = self.allocate_in(&shared.context, bytes);
        if let Err(code) = &memory
            && code.is_loss()
        {
            // The caller goes on with other memory, and then receives the loss.
            shared.lose(code);
        }
        let memory = memory.ok()?;
        // SAFETY: the memory has `bytes` bytes, and no other code has a pointer to it yet.
        unsafe { memory.start().write_bytes(0, bytes) };
        Some(Box::new(UploadBlock(memory)))
    }
}

/// Mapped memory for an upload.
pub(crate) struct UploadBlock(Staged<Mapped>);

impl UploadBlock {
    /// Returns the buffer and the offset of the first byte, if they are of this device: clients may send what they have
    /// staged to a device that was reopened meanwhile.
    pub(crate) fn place_in(&self, device: &Arc<Context>) -> Option<(vk::Buffer, u64)> {
        let (Mapped { buffer, .. }, offset) = self.0.place();
        Arc::ptr_eq(&buffer.context, device).then_some((buffer.raw, offset as u64))
    }
}

// SAFETY: the memory is mapped until its block is dropped, and was zeroed.
unsafe impl HostBlock for UploadBlock {
    fn start(&self) -> NonNull<u8> {
        let (mapped, offset) = self.0.place();
        // SAFETY: the range lies in the block.
        unsafe { mapped.start.add(offset) }
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

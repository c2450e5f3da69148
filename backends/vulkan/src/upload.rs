//! Memory of the device's own for long uploads: the caller writes to it, and the device copies from there.

use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use ash::vk;
use millstream_gpu::{BLOCK_BYTES, Staged};
use millstream_protocol::staging::{HostBlock, HostMemory};
use millstream_sync::facade::lock;

use crate::completer::Shared;
use crate::driver::{Context, Mapped, Purpose};

/// Allocates blocks.
pub(crate) struct UploadMemory(Weak<Shared>);

impl UploadMemory {
    /// Creates an allocator that works as long as the device lives.
    pub(crate) fn new(shared: &Arc<Shared>) -> Arc<Self> {
        Arc::new(Self(Arc::downgrade(shared)))
    }
}

impl HostMemory for UploadMemory {
    fn allocate(&self, bytes: usize) -> Option<Box<dyn HostBlock>> {
        let shared = self.0.upgrade()?;
        let create = |bytes| Mapped::new(&shared.context, bytes, Purpose::Upload);
        let memory = match bytes {
            ..=BLOCK_BYTES => lock(&shared.uploads).take(bytes, || create(BLOCK_BYTES)),
            _ => create(bytes).map(|memory| Staged::whole(memory, bytes)),
        };
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

//! Memory of the device's own for long uploads: the caller writes to it, and the device copies from there.

use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use ash::vk;
use millstream_protocol::staging::{HostBlock, HostMemory};

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
        let memory = Mapped::new(&shared.context, bytes, Purpose::Upload);
        if let Err(code) = &memory
            && code.is_loss()
        {
            // The caller goes on with other memory, and then receives the loss.
            shared.lose(code);
        }
        let memory = memory.ok()?;
        // SAFETY: the memory has `bytes` bytes, and no other code has a pointer to it yet.
        unsafe { memory.start.as_ptr().write_bytes(0, bytes) };
        Some(Box::new(UploadBlock { memory, bytes }))
    }
}

/// Mapped memory for an upload.
pub(crate) struct UploadBlock {
    memory: Mapped,
    bytes: usize,
}

impl UploadBlock {
    /// Returns the buffer, if it is of this device: clients may send what they have staged to a device that was reopened
    /// meanwhile.
    pub(crate) fn buffer_of(&self, device: &Arc<Context>) -> Option<vk::Buffer> {
        let buffer = &self.memory.buffer;
        Arc::ptr_eq(&buffer.context, device).then_some(buffer.raw)
    }
}

// SAFETY: the memory is mapped until the buffer is dropped, and was zeroed.
unsafe impl HostBlock for UploadBlock {
    fn start(&self) -> NonNull<u8> {
        self.memory.start
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

//! Memory of the device's own for long uploads: the caller writes to it, and the device copies from there.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ash::vk;
use millstream_protocol::staging::{HostBlock, HostMemory};

use crate::completer::Shared;
use crate::driver::{Mapped, Purpose};

/// Allocates blocks, and finds the buffer of a block by the address of its bytes.
#[derive(Clone)]
pub(crate) struct UploadMemory {
    shared: Weak<Shared>,
    blocks: Arc<Blocks>,
}

/// The blocks by the host address of their first byte: the end of each, and its buffer.
#[derive(Default)]
struct Blocks(Mutex<BTreeMap<usize, (usize, vk::Buffer)>>);

impl Blocks {
    fn with<T>(&self, body: impl FnOnce(&mut BTreeMap<usize, (usize, vk::Buffer)>) -> T) -> T {
        // A panic under the lock leaves the map consistent.
        body(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl UploadMemory {
    /// Creates an allocator that works as long as the device lives.
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::downgrade(shared),
            blocks: Arc::default(),
        }
    }

    /// Returns the buffer that contains these bytes, and the offset of the first one, if they lie in a block.
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<(vk::Buffer, u64)> {
        let start = bytes.as_ptr().addr();
        self.blocks.with(|blocks| {
            let (first, (end, buffer)) = blocks.range(..=start).next_back()?;
            (start + bytes.len() <= *end).then_some((*buffer, (start - first) as u64))
        })
    }
}

impl HostMemory for UploadMemory {
    fn allocate(&self, bytes: usize) -> Option<Box<dyn HostBlock>> {
        let shared = self.shared.upgrade()?;
        let memory = Mapped::new(&shared.context, bytes, Purpose::Upload);
        if let Err(code) = &memory
            && code.is_loss()
        {
            // The caller goes on with other memory, and then receives the loss.
            shared.lose(code);
        }
        let memory = memory.ok()?;
        let start = memory.start;
        // SAFETY: the memory has `bytes` bytes, and no other code has a pointer to it yet.
        unsafe { start.as_ptr().write_bytes(0, bytes) };
        let first = start.addr().get();
        let entry = (first + bytes, memory.buffer.raw);
        self.blocks.with(|blocks| blocks.insert(first, entry));
        Some(Box::new(UploadBlock {
            memory,
            bytes,
            blocks: self.blocks.clone(),
        }))
    }
}

/// Mapped memory for an upload.
struct UploadBlock {
    memory: Mapped,
    bytes: usize,
    blocks: Arc<Blocks>,
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

impl Drop for UploadBlock {
    fn drop(&mut self) {
        let first = self.memory.start.addr().get();
        self.blocks.with(|blocks| blocks.remove(&first));
    }
}

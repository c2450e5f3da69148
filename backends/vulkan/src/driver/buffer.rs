//! Buffers with their memory.

use std::ptr::NonNull;
use std::sync::Arc;

use ash::vk;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme};
use gpu_allocator::{AllocationError, MemoryLocation};
use millstream_gpu::{BLOCK_BYTES, StagingBlock};

use super::{Code, Context};

/// The alignment of device addresses of buffers, in bytes.
pub(crate) const ALIGNMENT: u64 = 256;

/// The smallest buffer with memory of its own; smaller ones share memory.
const DEDICATED_BYTES_MIN: u64 = 1 << 20;

/// What a buffer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// A page of device memory.
    Page,
    /// Host memory that the device reads.
    Upload,
    /// Host memory that the device writes.
    Readback,
}

/// A buffer, destroyed on drop together with its memory.
pub(crate) struct Buffer {
    context: Arc<Context>,
    pub(crate) raw: vk::Buffer,
    /// `None` only while the buffer is dropped.
    allocation: Option<Allocation>,
    /// The device address of the first byte.
    pub(crate) address: u64,
    bytes: u64,
}

impl Buffer {
    /// Creates a buffer. Its contents are undefined.
    pub(crate) fn new(context: &Arc<Context>, bytes: u64, purpose: Purpose) -> Result<Self, Code> {
        use vk::BufferUsageFlags as Usage;
        let usage = Usage::TRANSFER_SRC | Usage::TRANSFER_DST | Usage::SHADER_DEVICE_ADDRESS;
        let usage = match purpose {
            Purpose::Page => usage | Usage::STORAGE_BUFFER | Usage::INDIRECT_BUFFER,
            // Command buffers keep checked cube counts there.
            Purpose::Upload => usage | Usage::INDIRECT_BUFFER,
            Purpose::Readback => usage,
        };
        let device = &context.device;
        let raw = create(context, bytes, usage)?;
        let mut buffer = Self {
            context: context.clone(),
            raw,
            allocation: None,
            address: 0,
            bytes,
        };
        // SAFETY: the buffer is alive.
        let mut requirements = unsafe { device.get_buffer_memory_requirements(raw) };
        requirements.alignment = requirements.alignment.max(ALIGNMENT);
        let location = match purpose {
            Purpose::Page if context.gpu.has_unified_memory() => MemoryLocation::CpuToGpu,
            Purpose::Page => MemoryLocation::GpuOnly,
            Purpose::Upload => MemoryLocation::CpuToGpu,
            Purpose::Readback => MemoryLocation::GpuToCpu,
        };
        let request = AllocationCreateDesc {
            name: "millstream",
            requirements,
            location,
            linear: true,
            // Dedicated memory of Vulkan can have no aliases.
            allocation_scheme: match bytes >= DEDICATED_BYTES_MIN && !context.is_adopted() {
                true => AllocationScheme::DedicatedBuffer(raw),
                false => AllocationScheme::GpuAllocatorManaged,
            },
        };
        let allocated = context.with_allocator(|allocator| allocator.allocate(&request));
        let allocation = match allocated {
            Some((Ok(allocation), _)) => allocation,
            Some((Err(error), failure)) => return Err(allocation_code(&error, failure)),
            None => return Err(Code::of("vkAllocateMemory")(vk::Result::ERROR_DEVICE_LOST)),
        };
        // SAFETY: the memory is allocated for this buffer, and is bound once.
        let bound =
            unsafe { device.bind_buffer_memory(raw, allocation.memory(), allocation.offset()) };
        buffer.allocation = Some(allocation);
        bound.map_err(Code::of("vkBindBufferMemory"))?;
        let info = vk::BufferDeviceAddressInfo::default().buffer(raw);
        // SAFETY: the buffer was created with the usage for addresses, and is bound to memory.
        buffer.address = unsafe { device.get_buffer_device_address(&info) };
        Ok(buffer)
    }

    /// Returns the host's pointer to the first byte, if the host can access the memory.
    pub(crate) fn mapped(&self) -> Option<NonNull<u8>> {
        self.allocation.as_ref()?.mapped_ptr().map(NonNull::cast)
    }
}

/// Creates a buffer without memory, for all queues of the device.
fn create(context: &Context, bytes: u64, usage: vk::BufferUsageFlags) -> Result<vk::Buffer, Code> {
    let families = &context.families;
    let mut info = vk::BufferCreateInfo::default()
        .size(bytes.max(1))
        .usage(usage);
    if families.len() > 1 {
        info = info
            .sharing_mode(vk::SharingMode::CONCURRENT)
            .queue_family_indices(families);
    }
    // SAFETY: the info is valid.
    unsafe { context.device.create_buffer(&info, None) }.map_err(Code::of("vkCreateBuffer"))
}

/// Converts an error of the allocator to that of the driver call that failed, if one did.
fn allocation_code(error: &AllocationError, failure: Option<Code>) -> Code {
    if !matches!(error, AllocationError::OutOfMemory) {
        tracing::debug!(target: "millstream::vulkan", %error, "the allocator refused a buffer");
    }
    failure.unwrap_or(Code {
        call: "vkAllocateMemory",
        result: vk::Result::ERROR_OUT_OF_DEVICE_MEMORY,
    })
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; no task uses it any more, or the device is lost.
        unsafe { self.context.device.destroy_buffer(self.raw, None) };
        if let Some(allocation) = self.allocation.take() {
            let freed = self
                .context
                .with_allocator(|allocator| allocator.free(allocation));
            if let Some((Err(error), _)) = freed {
                tracing::error!(target: "millstream::vulkan", %error, "memory could not be freed");
            }
        }
    }
}

/// A buffer of its own on a range of the memory of another, which it keeps alive. Destroyed on drop.
pub(crate) struct Alias {
    pub(crate) raw: vk::Buffer,
    target: Arc<Buffer>,
}

impl Alias {
    /// Creates a buffer on `bytes` bytes of `target` from byte `offset` on. `None` if the usages do not fit the memory.
    pub(crate) fn new(
        target: Arc<Buffer>,
        offset: u64,
        bytes: u64,
        usage: vk::BufferUsageFlags,
    ) -> Result<Option<Self>, Code> {
        let Some(allocation) = &target.allocation else {
            return Ok(None);
        };
        // SAFETY: the memory is freed by the drop of `target`, which the alias keeps.
        let (memory, start) = unsafe { (allocation.memory(), allocation.offset() + offset) };
        let size = allocation.size();
        let context = target.context.clone();
        let raw = create(&context, bytes, usage)?;
        let alias = Self { raw, target };
        // SAFETY: both buffers are alive.
        let (needs, has) = unsafe {
            let needs = |buffer| context.device.get_buffer_memory_requirements(buffer);
            (needs(raw), needs(alias.target.raw))
        };
        // The required size may be rounded up beyond the range.
        let fits = offset + needs.size <= size;
        if !fits
            || needs.memory_type_bits != has.memory_type_bits
            || !start.is_multiple_of(needs.alignment)
        {
            return Ok(None);
        }
        // SAFETY: the range is part of the memory, whose type and alignment fit the buffer.
        unsafe { context.device.bind_buffer_memory(raw, memory, start) }
            .map_err(Code::of("vkBindBufferMemory"))?;
        Ok(Some(alias))
    }
}

impl Drop for Alias {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; its owner has ended all use of it.
        unsafe { self.target.context.device.destroy_buffer(self.raw, None) };
    }
}

/// A buffer that the host can access.
pub(crate) struct Mapped {
    pub(crate) buffer: Buffer,
    /// The host's pointer to the first byte.
    pub(crate) start: NonNull<u8>,
}

// SAFETY: plain memory; its users synchronize their accesses.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    pub(crate) fn new(
        context: &Arc<Context>,
        bytes: usize,
        purpose: Purpose,
    ) -> Result<Self, Code> {
        let buffer = Buffer::new(context, bytes as u64, purpose)?;
        let start = buffer.mapped();
        let start = start.ok_or(Code::of("vkMapMemory")(vk::Result::ERROR_MEMORY_MAP_FAILED))?;
        Ok(Self { buffer, start })
    }
}

// SAFETY: the memory is mapped until the buffer is dropped; staging blocks are created with `BLOCK_BYTES` bytes.
unsafe impl StagingBlock for Mapped {
    fn start(&self) -> NonNull<u8> {
        debug_assert!(self.buffer.bytes >= BLOCK_BYTES as u64);
        self.start
    }
}

//! Buffers, each with memory of its own: the pools of the runtime divide pages, and staging blocks are large.

use std::ptr::NonNull;
use std::sync::Arc;

use ash::vk;
use millstream_gpu::{BLOCK_BYTES, StagingBlock};

use super::{Code, Context};

/// The alignment of device addresses of buffers, in bytes.
pub(crate) const ALIGNMENT: u64 = 256;

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
    pub(crate) context: Arc<Context>,
    pub(crate) raw: vk::Buffer,
    /// Null until it is allocated.
    memory: vk::DeviceMemory,
    /// Bytes of the memory.
    bytes: u64,
    /// The host's pointer to the first byte, if the host can access the memory.
    pub(crate) mapped: Option<NonNull<u8>>,
    /// The device address of the first byte.
    pub(crate) address: u64,
}

// SAFETY: plain memory; its users synchronize their accesses.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

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
            memory: vk::DeviceMemory::null(),
            bytes: 0,
            mapped: None,
            address: 0,
        };
        buffer.allocate(purpose)?;
        // SAFETY: the memory is allocated for this buffer, and is bound once.
        unsafe { device.bind_buffer_memory(raw, buffer.memory, 0) }
            .map_err(Code::of("vkBindBufferMemory"))?;
        let info = vk::BufferDeviceAddressInfo::default().buffer(raw);
        // SAFETY: the buffer was created with the usage for addresses, and is bound to memory.
        buffer.address = unsafe { device.get_buffer_device_address(&info) };
        Ok(buffer)
    }

    /// Allocates the memory, and maps it if the host accesses it. If the preferred type of memory has no more, takes
    /// another.
    fn allocate(&mut self, purpose: Purpose) -> Result<(), Code> {
        use vk::MemoryPropertyFlags as Has;
        let context = &self.context;
        let host = Has::HOST_VISIBLE | Has::HOST_COHERENT;
        let (needed, preferred) = match purpose {
            Purpose::Page if !context.gpu.has_unified_memory() => (Has::DEVICE_LOCAL, Has::empty()),
            Purpose::Page | Purpose::Upload => (host, Has::DEVICE_LOCAL),
            Purpose::Readback => (host, Has::HOST_CACHED),
        };
        // SAFETY: the buffer is alive.
        let needs = unsafe { context.device.get_buffer_memory_requirements(self.raw) };
        let with = |flags: Has| {
            let mut types = (0..).zip(context.gpu.memory.memory_types_as_slice());
            let found = types.find(|(index, kind)| {
                let heap = context.gpu.memory.memory_heaps[kind.heap_index as usize];
                needs.memory_type_bits >> index & 1 != 0
                    && kind.property_flags.contains(flags)
                    && needs.size <= heap.size
            });
            found.map(|(index, _)| index)
        };
        let (best, other) = (with(needed | preferred), with(needed));
        let mut flags =
            vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let mut info = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .push_next(&mut flags);
        let mut failed = Code::of("vkAllocateMemory")(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY);
        for kind in best.into_iter().chain(other.filter(|_| other != best)) {
            info.memory_type_index = kind;
            match allocate(&context.device, &info, needed == host) {
                Ok((memory, mapped)) => {
                    (self.memory, self.bytes, self.mapped) = (memory, needs.size, mapped);
                    return Ok(());
                }
                Err(code) => failed = code,
            }
            // A loss must not pass for missing memory, even if the driver reports it once.
            if failed.is_loss() {
                break;
            }
        }
        Err(failed)
    }
}

/// Allocates memory of one type, and maps it if `is_mapped`.
fn allocate(
    device: &ash::Device,
    info: &vk::MemoryAllocateInfo<'_>,
    is_mapped: bool,
) -> Result<(vk::DeviceMemory, Option<NonNull<u8>>), Code> {
    // SAFETY: the info is valid; the device has addresses of buffers.
    let memory =
        unsafe { device.allocate_memory(info, None) }.map_err(Code::of("vkAllocateMemory"))?;
    if !is_mapped {
        return Ok((memory, None));
    }
    let (all, none) = (vk::WHOLE_SIZE, vk::MemoryMapFlags::empty());
    // SAFETY: the host can access the memory, which is mapped once.
    match unsafe { device.map_memory(memory, 0, all, none) } {
        Ok(start) => Ok((memory, NonNull::new(start.cast()))),
        Err(code) => {
            // SAFETY: nothing uses the memory.
            unsafe { device.free_memory(memory, None) };
            Err(Code::of("vkMapMemory")(code))
        }
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

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; no task uses it any more, or the device is lost. Null handles are ignored.
        unsafe {
            self.context.device.destroy_buffer(self.raw, None);
            self.context.device.free_memory(self.memory, None);
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
        let context = target.context.clone();
        let raw = create(&context, bytes, usage)?;
        let alias = Self { raw, target };
        // SAFETY: both buffers are alive.
        let (needs, has) = unsafe {
            let needs = |buffer| context.device.get_buffer_memory_requirements(buffer);
            (needs(raw), needs(alias.target.raw))
        };
        // The required size may be rounded up beyond the range.
        let fits = offset + needs.size <= alias.target.bytes;
        if !fits
            || needs.memory_type_bits != has.memory_type_bits
            || !offset.is_multiple_of(needs.alignment)
        {
            return Ok(None);
        }
        // SAFETY: the range is part of the memory, whose type and alignment fit the buffer, and which the alias keeps.
        unsafe {
            context
                .device
                .bind_buffer_memory(raw, alias.target.memory, offset)
        }
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
        let start = buffer
            .mapped
            .ok_or(Code::of("vkMapMemory")(vk::Result::ERROR_MEMORY_MAP_FAILED))?;
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

//! Buffers with memory of their own.

use ash::vk;

use super::Gpu;
use crate::error::BenchError;

/// Where the memory of a buffer should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// On the GPU.
    Device,
    /// On the host, for uploads.
    Upload,
    /// On the host, cached, for readbacks.
    Readback,
}

impl Place {
    /// The wanted properties, the best first.
    fn wanted(self) -> [vk::MemoryPropertyFlags; 2] {
        use vk::MemoryPropertyFlags as Flags;
        let visible = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
        match self {
            Self::Device => [Flags::DEVICE_LOCAL, Flags::empty()],
            Self::Upload => [visible, visible],
            Self::Readback => [visible | Flags::HOST_CACHED, visible],
        }
    }
}

/// A buffer. Destroyed on drop.
pub(crate) struct Memory<'a> {
    gpu: &'a Gpu,
    pub(crate) buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    pub(crate) address: u64,
    bytes: usize,
    /// Null on the GPU.
    mapped: *mut u8,
}

impl<'a> Memory<'a> {
    pub(crate) fn new(gpu: &'a Gpu, bytes: usize, place: Place) -> Result<Self, BenchError> {
        let device = &gpu.device;
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST
            | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        let info = vk::BufferCreateInfo::default()
            .size(bytes as u64)
            .usage(usage);
        // SAFETY: the infos are valid, and the buffer is bound to memory that suits it, of which host memory is mapped
        // once.
        unsafe {
            let buffer = device.create_buffer(&info, None)?;
            let needs = device.get_buffer_memory_requirements(buffer);
            let types = gpu
                .instance
                .get_physical_device_memory_properties(gpu.physical);
            let find = |wanted: vk::MemoryPropertyFlags| {
                let types = types.memory_types_as_slice().iter().zip(0_u32..);
                let suits = |(of, index): &(&vk::MemoryType, u32)| {
                    needs.memory_type_bits >> index & 1 == 1 && of.property_flags.contains(wanted)
                };
                types.into_iter().find(suits).map(|(_, index)| index)
            };
            let found = place.wanted().into_iter().find_map(find);
            let mut flags = vk::MemoryAllocateFlagsInfo::default()
                .flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
            let info = vk::MemoryAllocateInfo::default()
                .allocation_size(needs.size)
                .memory_type_index(found.ok_or(BenchError::Missing("memory of the host"))?)
                .push_next(&mut flags);
            let memory = device.allocate_memory(&info, None)?;
            device.bind_buffer_memory(buffer, memory, 0)?;
            let info = vk::BufferDeviceAddressInfo::default().buffer(buffer);
            let address = device.get_buffer_device_address(&info);
            let mapped = match place {
                Place::Device => std::ptr::null_mut(),
                _ => device
                    .map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty())?
                    .cast(),
            };
            Ok(Self {
                gpu,
                buffer,
                memory,
                address,
                bytes,
                mapped,
            })
        }
    }

    /// Writes to memory of the host. The GPU does not use it meanwhile.
    pub(crate) fn write(&self, bytes: &[u8]) {
        self.write_at(0, bytes);
    }

    /// Writes to memory of the host, from byte `offset` on. The GPU does not use it meanwhile.
    #[inline]
    pub(crate) fn write_at(&self, offset: usize, bytes: &[u8]) {
        assert!(!self.mapped.is_null() && offset + bytes.len() <= self.bytes);
        // SAFETY: checked above; the mapping has as many bytes.
        unsafe {
            let target = self.mapped.add(offset);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
    }

    /// Returns the bytes of memory of the host. The GPU does not use it meanwhile.
    pub(crate) fn read(&self) -> Vec<u8> {
        assert!(!self.mapped.is_null());
        // SAFETY: checked above; the mapping has as many bytes.
        unsafe { std::slice::from_raw_parts(self.mapped, self.bytes) }.to_vec()
    }
}

// SAFETY: the mapping belongs to the memory, and any thread may access it.
unsafe impl Send for Memory<'_> {}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        let device = &self.gpu.device;
        // SAFETY: created once, destroyed once, after the benches have waited for the GPU.
        unsafe {
            device.destroy_buffer(self.buffer, None);
            device.free_memory(self.memory, None);
        }
    }
}

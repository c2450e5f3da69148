//! Direct calls of the Vulkan driver, written by hand as a good engineer would for this work: kernels receive addresses
//! as push constants, each queue has one timeline semaphore, and each batch is one `vkQueueSubmit2`.
//!
//! As for CUDA, the types are sound only within this program: callers wait for work before they drop what it uses.

use std::sync::{Mutex, PoisonError};

use ash::vk;
use millstream_vulkan_conformance::Application;

use super::WORDS;
use crate::error::BenchError;

const ADD_ONE: &[u8] = include_bytes!("../../../../tests/vulkan/kernels/addresses/add_one.spv");
/// Bytes of the push constants of `add_one`: an address and a count.
const PUSHED_BYTES: usize = 12;
/// The most batches in flight: the next one waits for the oldest.
const IN_FLIGHT_MAX: u64 = 64;
const WORK: vk::PipelineStageFlags2 = vk::PipelineStageFlags2::from_raw(
    vk::PipelineStageFlags2::COMPUTE_SHADER.as_raw() | vk::PipelineStageFlags2::COPY.as_raw(),
);

/// Returns the module of the kernel `add_one`.
pub(super) fn spirv() -> Vec<u32> {
    let words = ADD_ONE.as_chunks::<4>().0.iter();
    words.map(|bytes| u32::from_le_bytes(*bytes)).collect()
}

/// A logical device on the first GPU, with two of its queues if a family has as many, and the kernel.
pub(crate) struct Gpu {
    module: vk::ShaderModule,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
    /// Dropped last.
    application: Application,
}

impl std::ops::Deref for Gpu {
    type Target = Application;

    fn deref(&self) -> &Application {
        &self.application
    }
}

impl Gpu {
    pub(super) fn open() -> Result<Self, BenchError> {
        let application = Application::new(2, |_, _, _| Vec::new())?;
        let device = &application.device;
        // SAFETY: the infos, and all that they point to, live until the calls return, and the handles belong to the device.
        // The module is valid SPIR-V with the push constants of the layout.
        unsafe {
            let info = vk::ShaderModuleCreateInfo::default();
            let module = device.create_shader_module(&info.code(&spirv()), None)?;
            let ranges = [vk::PushConstantRange {
                stage_flags: vk::ShaderStageFlags::COMPUTE,
                offset: 0,
                size: PUSHED_BYTES as u32,
            }];
            let info = vk::PipelineLayoutCreateInfo::default().push_constant_ranges(&ranges);
            let layout = device.create_pipeline_layout(&info, None)?;
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(c"main");
            let info = vk::ComputePipelineCreateInfo::default();
            let infos = [info.stage(stage).layout(layout)];
            let created = device.create_compute_pipelines(vk::PipelineCache::null(), &infos, None);
            let pipeline = created.map_err(|(_, error)| error)?[0];
            Ok(Self {
                module,
                layout,
                pipeline,
                application,
            })
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: recorders and memory borrow the GPU, so nothing uses these objects any more.
        unsafe {
            let _ = self.device.device_wait_idle();
            self.device.destroy_pipeline(self.pipeline, None);
            self.device.destroy_pipeline_layout(self.layout, None);
            self.device.destroy_shader_module(self.module, None);
        }
    }
}

/// Where the memory of a buffer should be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Gpu,
    /// On the host, and mapped; cached, if the driver has such memory.
    Host,
}

/// A buffer with memory of its own.
pub(super) struct Memory<'a> {
    gpu: &'a Gpu,
    pub(super) buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    pub(super) address: u64,
    bytes: usize,
    /// Null on the GPU.
    mapped: *mut u8,
}

impl<'a> Memory<'a> {
    pub(super) fn new(gpu: &'a Gpu, bytes: usize, place: Place) -> Result<Self, BenchError> {
        use vk::MemoryPropertyFlags as Flags;
        let visible = Flags::HOST_VISIBLE | Flags::HOST_COHERENT;
        let wanted = match place {
            Place::Gpu => [Flags::DEVICE_LOCAL, Flags::empty()],
            Place::Host => [visible | Flags::HOST_CACHED, visible],
        };
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST
            | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        let info = vk::BufferCreateInfo::default().usage(usage);
        let (device, instance) = (&gpu.device, &gpu.instance);
        // SAFETY: the infos are valid, and the buffer is bound to memory that suits it, of which host memory is mapped
        // once.
        unsafe {
            let buffer = device.create_buffer(&info.size(bytes as u64), None)?;
            let needs = device.get_buffer_memory_requirements(buffer);
            let types = instance.get_physical_device_memory_properties(gpu.physical);
            let find = |wanted: Flags| {
                let suits = |(index, of): &(usize, &vk::MemoryType)| {
                    needs.memory_type_bits >> index & 1 == 1 && of.property_flags.contains(wanted)
                };
                types.memory_types_as_slice().iter().enumerate().find(suits)
            };
            let (index, _) = wanted
                .into_iter()
                .find_map(find)
                .ok_or(BenchError::Missing("memory of the host"))?;
            let mut flags = vk::MemoryAllocateFlagsInfo::default()
                .flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
            let info = vk::MemoryAllocateInfo::default()
                .allocation_size(needs.size)
                .memory_type_index(index as u32)
                .push_next(&mut flags);
            let memory = device.allocate_memory(&info, None)?;
            device.bind_buffer_memory(buffer, memory, 0)?;
            let info = vk::BufferDeviceAddressInfo::default().buffer(buffer);
            let address = device.get_buffer_device_address(&info);
            let mapped = match place {
                Place::Gpu => std::ptr::null_mut(),
                Place::Host => device
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

    /// Returns the bytes of memory of the host. The GPU does not use it meanwhile.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        assert!(!self.mapped.is_null());
        // SAFETY: checked above; the mapping has as many bytes, and belongs to this value.
        unsafe { std::slice::from_raw_parts_mut(self.mapped, self.bytes) }
    }
}

// SAFETY: the mapping belongs to the memory, and any thread may access it.
unsafe impl Send for Memory<'_> {}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once, after the benches have waited for the GPU.
        unsafe {
            self.gpu.device.destroy_buffer(self.buffer, None);
            self.gpu.device.free_memory(self.memory, None);
        }
    }
}

/// Records batches and submits them to a queue.
pub(super) struct Recorder<'a> {
    gpu: &'a Gpu,
    queue: vk::Queue,
    semaphore: vk::Semaphore,
    /// The value of the last submitted batch.
    submitted: u64,
    /// The greatest value that was waited for.
    completed: u64,
    /// The command pools and their buffers, used in turn.
    batches: Vec<(vk::CommandPool, vk::CommandBuffer)>,
    is_open: bool,
}

impl<'a> Recorder<'a> {
    /// Creates a recorder for one of two queues, which may be the same.
    pub(super) fn new(gpu: &'a Gpu, queue: usize) -> Result<Self, BenchError> {
        let mut kind =
            vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        let pool = vk::CommandPoolCreateInfo::default()
            .queue_family_index(gpu.family)
            .flags(vk::CommandPoolCreateFlags::TRANSIENT);
        let batch = |_| {
            // SAFETY: the infos are valid, and the pool is the one made here.
            unsafe {
                let pool = gpu.device.create_command_pool(&pool, None)?;
                let info = vk::CommandBufferAllocateInfo::default()
                    .command_pool(pool)
                    .command_buffer_count(1);
                Ok((pool, gpu.device.allocate_command_buffers(&info)?[0]))
            }
        };
        let batches = (0..IN_FLIGHT_MAX).map(batch);
        Ok(Self {
            gpu,
            queue: gpu.queues[queue % gpu.queues.len()],
            // SAFETY: the info is valid.
            semaphore: unsafe { gpu.device.create_semaphore(&info, None) }?,
            submitted: 0,
            completed: 0,
            batches: batches.collect::<Result<_, vk::Result>>()?,
            is_open: false,
        })
    }

    /// Returns the command buffer of the open batch.
    fn commands(&mut self) -> Result<vk::CommandBuffer, BenchError> {
        let (pool, commands) = self.batches[(self.submitted % IN_FLIGHT_MAX) as usize];
        if !self.is_open {
            self.wait((self.submitted + 1).saturating_sub(IN_FLIGHT_MAX))?;
            let info = vk::CommandBufferBeginInfo::default()
                .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
            let device = &self.gpu.device;
            // SAFETY: the last batch of this pool has completed.
            unsafe {
                device.reset_command_pool(pool, vk::CommandPoolResetFlags::empty())?;
                device.begin_command_buffer(commands, &info)?;
                let point = vk::PipelineBindPoint::COMPUTE;
                device.cmd_bind_pipeline(commands, point, self.gpu.pipeline);
            }
            self.is_open = true;
        }
        Ok(commands)
    }

    /// Records a launch of the kernel on the words at `address`.
    #[inline]
    pub(super) fn launch(&mut self, address: u64) -> Result<(), BenchError> {
        let commands = self.commands()?;
        let mut pushed = [0_u8; PUSHED_BYTES];
        pushed[..8].copy_from_slice(&address.to_ne_bytes());
        pushed[8..].copy_from_slice(&(WORDS as u32).to_ne_bytes());
        let (device, layout) = (&self.gpu.device, self.gpu.layout);
        // SAFETY: the layout has these push constants, and the buffer has as many words.
        unsafe {
            device.cmd_push_constants(commands, layout, vk::ShaderStageFlags::COMPUTE, 0, &pushed);
            device.cmd_dispatch(commands, 1, 1, 1);
        }
        Ok(())
    }

    /// Records a barrier between launches and copies, which also makes their writes visible to the host.
    #[inline]
    pub(super) fn barrier(&mut self) -> Result<(), BenchError> {
        let commands = self.commands()?;
        let barriers = [vk::MemoryBarrier2::default()
            .src_stage_mask(WORK)
            .src_access_mask(vk::AccessFlags2::MEMORY_WRITE)
            .dst_stage_mask(WORK | vk::PipelineStageFlags2::HOST)
            .dst_access_mask(vk::AccessFlags2::MEMORY_READ | vk::AccessFlags2::MEMORY_WRITE)];
        let info = vk::DependencyInfo::default().memory_barriers(&barriers);
        // SAFETY: the command buffer is being recorded.
        unsafe { self.gpu.device.cmd_pipeline_barrier2(commands, &info) };
        Ok(())
    }

    /// Records a copy of the whole source.
    pub(super) fn copy(&mut self, from: &Memory<'_>, to: &Memory<'_>) -> Result<(), BenchError> {
        let commands = self.commands()?;
        let region = [vk::BufferCopy {
            src_offset: 0,
            dst_offset: 0,
            size: from.bytes as u64,
        }];
        let device = &self.gpu.device;
        // SAFETY: both buffers have as many bytes.
        unsafe { device.cmd_copy_buffer(commands, from.buffer, to.buffer, &region) };
        Ok(())
    }

    /// Submits the open batch.
    pub(super) fn submit(&mut self) -> Result<(), BenchError> {
        self.submit_after(None, None)
    }

    /// Submits the open batch, after the point of another recorder, under the lock of the queue.
    pub(super) fn submit_after(
        &mut self,
        other: Option<(vk::Semaphore, u64)>,
        lock: Option<&Mutex<()>>,
    ) -> Result<(), BenchError> {
        let commands = self.commands()?;
        let info = |(semaphore, value)| {
            vk::SemaphoreSubmitInfo::default()
                .semaphore(semaphore)
                .value(value)
                .stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)
        };
        let wait = other.map(info);
        let signals = [info((self.semaphore, self.submitted + 1))];
        let buffers = [vk::CommandBufferSubmitInfo::default().command_buffer(commands)];
        let submits = [vk::SubmitInfo2::default()
            .wait_semaphore_infos(wait.as_slice())
            .command_buffer_infos(&buffers)
            .signal_semaphore_infos(&signals)];
        let (device, fence) = (&self.gpu.device, vk::Fence::null());
        // SAFETY: the batch is complete, and its pool is reused only after the semaphore has reached the value. The
        // lock makes the use of the queue exclusive.
        unsafe {
            device.end_command_buffer(commands)?;
            let _guard = lock.map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner));
            device.queue_submit2(self.queue, &submits, fence)?;
        }
        self.submitted += 1;
        self.is_open = false;
        Ok(())
    }

    /// Waits until the batch of this value has completed.
    fn wait(&mut self, value: u64) -> Result<(), BenchError> {
        if self.completed < value {
            let (semaphores, values) = ([self.semaphore], [value]);
            let info = vk::SemaphoreWaitInfo::default()
                .semaphores(&semaphores)
                .values(&values);
            // SAFETY: the semaphore is alive.
            unsafe { self.gpu.device.wait_semaphores(&info, u64::MAX) }?;
            self.completed = value;
        }
        Ok(())
    }

    /// Waits until everything submitted has completed.
    pub(super) fn finish(&mut self) -> Result<(), BenchError> {
        self.wait(self.submitted)
    }

    /// Returns the point after the last submitted batch, for [`Recorder::submit_after`].
    pub(super) fn point(&self) -> (vk::Semaphore, u64) {
        (self.semaphore, self.submitted)
    }
}

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        let _ = self.finish();
        // SAFETY: everything submitted has completed, or the device is lost.
        unsafe {
            for (pool, _) in &self.batches {
                self.gpu.device.destroy_command_pool(*pool, None);
            }
            self.gpu.device.destroy_semaphore(self.semaphore, None);
        }
    }
}

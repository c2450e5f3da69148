//! Batches of one thread: command pools that are reused once their batch has completed.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use ash::vk;

use super::Gpu;
use super::gpu::ARGUMENT_BYTES;
use crate::WORDS;
use crate::error::BenchError;

/// The most batches in flight: [`Recorder::submit`] waits for the oldest.
const IN_FLIGHT_MAX: usize = 64;

/// Records and submits batches.
pub(crate) struct Recorder<'a> {
    gpu: &'a Gpu,
    /// The device's functions, which may count calls.
    device: ash::Device,
    queue: vk::Queue,
    semaphore: vk::Semaphore,
    /// The value of the last submitted batch.
    submitted: u64,
    /// The open batch.
    open: Option<(vk::CommandPool, vk::CommandBuffer)>,
    in_flight: VecDeque<(u64, vk::CommandPool, vk::CommandBuffer)>,
    free: Vec<(vk::CommandPool, vk::CommandBuffer)>,
}

const WORK: vk::PipelineStageFlags2 = vk::PipelineStageFlags2::from_raw(
    vk::PipelineStageFlags2::COMPUTE_SHADER.as_raw() | vk::PipelineStageFlags2::COPY.as_raw(),
);

impl<'a> Recorder<'a> {
    /// Creates a recorder for one of two queues.
    pub(crate) fn new(gpu: &'a Gpu, queue: usize) -> Result<Self, BenchError> {
        Self::through(gpu, &gpu.device, queue)
    }

    /// Creates a recorder that calls the functions of `device`.
    pub(crate) fn through(
        gpu: &'a Gpu,
        device: &ash::Device,
        queue: usize,
    ) -> Result<Self, BenchError> {
        let mut kind =
            vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the info is valid.
        let semaphore = unsafe { device.create_semaphore(&info, None) }?;
        Ok(Self {
            gpu,
            device: device.clone(),
            queue: gpu.queue(queue),
            semaphore,
            submitted: 0,
            open: None,
            in_flight: VecDeque::new(),
            free: Vec::new(),
        })
    }

    /// Returns the command buffer of the open batch.
    fn commands(&mut self) -> Result<vk::CommandBuffer, BenchError> {
        if let Some((_, commands)) = self.open {
            return Ok(commands);
        }
        self.reclaim()?;
        let device = &self.device;
        let (pool, commands) = match self.free.pop() {
            Some(free) => free,
            None => self.pool()?,
        };
        let info = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: free pools are not in flight.
        unsafe {
            device.reset_command_pool(pool, vk::CommandPoolResetFlags::empty())?;
            device.begin_command_buffer(commands, &info)?;
            let point = vk::PipelineBindPoint::COMPUTE;
            device.cmd_bind_pipeline(commands, point, self.gpu.add_one.pipeline);
        }
        self.open = Some((pool, commands));
        Ok(commands)
    }

    fn pool(&self) -> Result<(vk::CommandPool, vk::CommandBuffer), BenchError> {
        let info = vk::CommandPoolCreateInfo::default()
            .queue_family_index(self.gpu.family)
            .flags(vk::CommandPoolCreateFlags::TRANSIENT);
        // SAFETY: the infos are valid.
        unsafe {
            let pool = self.device.create_command_pool(&info, None)?;
            let info = vk::CommandBufferAllocateInfo::default()
                .command_pool(pool)
                .command_buffer_count(1);
            Ok((pool, self.device.allocate_command_buffers(&info)?[0]))
        }
    }

    /// Frees the pools of completed batches. Asks the driver only if no pool is free.
    fn reclaim(&mut self) -> Result<(), BenchError> {
        if !self.free.is_empty() || self.in_flight.is_empty() {
            return Ok(());
        }
        if self.in_flight.len() == IN_FLIGHT_MAX {
            self.wait(self.in_flight[0].0)?;
        }
        // SAFETY: the semaphore is alive.
        let completed = unsafe { self.device.get_semaphore_counter_value(self.semaphore) }?;
        self.release(completed);
        Ok(())
    }

    fn release(&mut self, completed: u64) {
        let is_complete = |batch: &mut (u64, _, _)| batch.0 <= completed;
        while let Some((_, pool, commands)) = self.in_flight.pop_front_if(is_complete) {
            self.free.push((pool, commands));
        }
    }

    /// Records a launch of the kernel on the words at `address`.
    #[inline]
    pub(crate) fn launch(&mut self, address: u64) -> Result<(), BenchError> {
        let commands = self.commands()?;
        let pushed = arguments(address);
        let (layout, stage) = (self.gpu.add_one.layout, vk::ShaderStageFlags::COMPUTE);
        // SAFETY: the layout has these push constants, and the buffer has as many words.
        unsafe {
            self.device
                .cmd_push_constants(commands, layout, stage, 0, &pushed);
            self.device.cmd_dispatch(commands, 1, 1, 1);
        }
        Ok(())
    }

    /// Records a barrier between launches and copies.
    #[inline]
    pub(crate) fn barrier(&mut self) -> Result<(), BenchError> {
        let commands = self.commands()?;
        record_barrier(&self.device, commands);
        Ok(())
    }

    /// Records the commands of a secondary command buffer.
    pub(super) fn execute(&mut self, secondary: vk::CommandBuffer) -> Result<(), BenchError> {
        let commands = self.commands()?;
        // SAFETY: the secondary command buffer is complete.
        unsafe { self.device.cmd_execute_commands(commands, &[secondary]) };
        Ok(())
    }

    /// Records a copy between two buffers.
    pub(crate) fn copy(
        &mut self,
        from: vk::Buffer,
        to: vk::Buffer,
        bytes: usize,
    ) -> Result<(), BenchError> {
        let commands = self.commands()?;
        let region = [vk::BufferCopy {
            src_offset: 0,
            dst_offset: 0,
            size: bytes as u64,
        }];
        // SAFETY: the buffers have as many bytes.
        unsafe { self.device.cmd_copy_buffer(commands, from, to, &region) };
        Ok(())
    }

    /// Records a barrier that makes copies visible to the host.
    pub(crate) fn visible_to_host(&mut self) -> Result<(), BenchError> {
        let commands = self.commands()?;
        let after = (vk::PipelineStageFlags2::HOST, vk::AccessFlags2::HOST_READ);
        record_dependency(&self.device, commands, after);
        Ok(())
    }

    /// Submits the open batch. Returns the value that the semaphore reaches after it.
    pub(crate) fn submit(&mut self) -> Result<u64, BenchError> {
        self.submit_after(None, None)
    }

    /// Submits the open batch, after the batch of another queue, under the lock of the queue.
    pub(crate) fn submit_after(
        &mut self,
        other: Option<(vk::Semaphore, u64)>,
        lock: Option<&Mutex<()>>,
    ) -> Result<u64, BenchError> {
        let commands = self.commands()?;
        let value = self.submitted + 1;
        let info = |(semaphore, value)| {
            vk::SemaphoreSubmitInfo::default()
                .semaphore(semaphore)
                .value(value)
                .stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)
        };
        let waits = [info(other.unwrap_or_default())];
        let signals = [info((self.semaphore, value))];
        let buffers = [vk::CommandBufferSubmitInfo::default().command_buffer(commands)];
        let submits = [vk::SubmitInfo2::default()
            .wait_semaphore_infos(&waits[..usize::from(other.is_some())])
            .command_buffer_infos(&buffers)
            .signal_semaphore_infos(&signals)];
        // SAFETY: the batch is complete, and its pool is reused only after the semaphore has reached the value. The
        // lock makes the use of the queue exclusive.
        unsafe {
            self.device.end_command_buffer(commands)?;
            let _guard = lock.map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.device
                .queue_submit2(self.queue, &submits, vk::Fence::null())?;
        }
        self.submitted = value;
        let open = self.open.take();
        self.in_flight
            .extend(open.map(|(pool, commands)| (value, pool, commands)));
        Ok(value)
    }

    /// Waits until the batch of this value has completed.
    pub(crate) fn wait(&mut self, value: u64) -> Result<(), BenchError> {
        let (semaphores, values) = ([self.semaphore], [value]);
        let info = vk::SemaphoreWaitInfo::default()
            .semaphores(&semaphores)
            .values(&values);
        // SAFETY: the semaphore is alive.
        unsafe { self.device.wait_semaphores(&info, u64::MAX) }?;
        self.release(value);
        Ok(())
    }

    /// Waits until everything submitted has completed.
    pub(crate) fn finish(&mut self) -> Result<(), BenchError> {
        self.wait(self.submitted)
    }

    /// Returns the point after the last submitted batch, for [`Recorder::submit_after`].
    pub(crate) fn point(&self) -> (vk::Semaphore, u64) {
        (self.semaphore, self.submitted)
    }
}

/// Returns the arguments of the kernel for the words at `address`.
#[inline]
pub(super) fn arguments(address: u64) -> [u8; ARGUMENT_BYTES] {
    let mut arguments = [0_u8; ARGUMENT_BYTES];
    arguments[..8].copy_from_slice(&address.to_ne_bytes());
    arguments[8..].copy_from_slice(&(WORDS as u32).to_ne_bytes());
    arguments
}

/// Records a barrier between launches and copies to a command buffer that is being recorded.
#[inline]
pub(super) fn record_barrier(device: &ash::Device, commands: vk::CommandBuffer) {
    use vk::AccessFlags2 as Access;
    let accesses =
        Access::SHADER_READ | Access::SHADER_WRITE | Access::TRANSFER_READ | Access::TRANSFER_WRITE;
    record_dependency(device, commands, (WORK, accesses));
}

fn record_dependency(
    device: &ash::Device,
    commands: vk::CommandBuffer,
    (stages, accesses): (vk::PipelineStageFlags2, vk::AccessFlags2),
) {
    let barriers = [vk::MemoryBarrier2::default()
        .src_stage_mask(WORK)
        .src_access_mask(vk::AccessFlags2::SHADER_WRITE | vk::AccessFlags2::TRANSFER_WRITE)
        .dst_stage_mask(stages)
        .dst_access_mask(accesses)];
    let info = vk::DependencyInfo::default().memory_barriers(&barriers);
    // SAFETY: the command buffer is being recorded.
    unsafe { device.cmd_pipeline_barrier2(commands, &info) };
}

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        let _ = self.finish();
        // SAFETY: everything submitted has completed, or the device is lost.
        unsafe {
            for (pool, _) in self.free.drain(..).chain(self.open.take()) {
                self.device.destroy_command_pool(pool, None);
            }
            self.device.destroy_semaphore(self.semaphore, None);
        }
    }
}

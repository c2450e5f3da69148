//! A plan of dependent launches in a secondary command buffer, which is recorded once. The arguments of each launch are a
//! block in a buffer, which each replay writes.

use ash::vk;

use super::recorder::{arguments, record_barrier};
use super::{Gpu, Memory, Place, Recorder};
use crate::error::BenchError;

/// Bytes of the block of arguments of a launch.
const BLOCK_BYTES: usize = 16;

/// A recorded plan.
pub(crate) struct Plan<'a> {
    gpu: &'a Gpu,
    pool: vk::CommandPool,
    secondary: vk::CommandBuffer,
    /// The arguments of all launches.
    blocks: Memory<'a>,
    launches: usize,
}

impl<'a> Plan<'a> {
    /// Records launches of the kernel, each after a barrier, through the functions of `device`.
    pub(crate) fn new(
        gpu: &'a Gpu,
        device: &ash::Device,
        launches: usize,
    ) -> Result<Self, BenchError> {
        let blocks = Memory::new(gpu, launches * BLOCK_BYTES, Place::Upload)?;
        let kernel = &gpu.add_one_at;
        // SAFETY: the infos are valid; the layout has these push constants.
        unsafe {
            let info = vk::CommandPoolCreateInfo::default().queue_family_index(gpu.family);
            let pool = device.create_command_pool(&info, None)?;
            let info = vk::CommandBufferAllocateInfo::default()
                .command_pool(pool)
                .level(vk::CommandBufferLevel::SECONDARY)
                .command_buffer_count(1);
            let secondary = device.allocate_command_buffers(&info)?[0];
            let inherited = vk::CommandBufferInheritanceInfo::default();
            let info = vk::CommandBufferBeginInfo::default().inheritance_info(&inherited);
            device.begin_command_buffer(secondary, &info)?;
            let point = vk::PipelineBindPoint::COMPUTE;
            device.cmd_bind_pipeline(secondary, point, kernel.pipeline);
            for launch in 0..launches {
                record_barrier(device, secondary);
                let block = blocks.address + (launch * BLOCK_BYTES) as u64;
                let (stage, pushed) = (vk::ShaderStageFlags::COMPUTE, block.to_ne_bytes());
                device.cmd_push_constants(secondary, kernel.layout, stage, 0, &pushed);
                device.cmd_dispatch(secondary, 1, 1, 1);
            }
            device.end_command_buffer(secondary)?;
            Ok(Self {
                gpu,
                pool,
                secondary,
                blocks,
                launches,
            })
        }
    }

    /// Records a replay on the words at `address` to the open batch of `recorder`. Earlier replays have completed.
    pub(crate) fn replay(
        &self,
        recorder: &mut Recorder<'_>,
        address: u64,
    ) -> Result<(), BenchError> {
        for launch in 0..self.launches {
            self.blocks
                .write_at(launch * BLOCK_BYTES, &arguments(address));
        }
        recorder.execute(self.secondary)
    }
}

impl Drop for Plan<'_> {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once, after the benches have waited for the GPU.
        unsafe { self.gpu.device.destroy_command_pool(self.pool, None) };
    }
}

//! The barriers of a queue: between conflicting tasks, and before the host reads what was written. They cover the stages
//! of our commands: compute shaders, copies and indirect commands.

use ash::vk;

use crate::driver::Context;

/// The stages of our commands, and of those that user code may record without barriers of its own.
pub(crate) const STAGES: vk::PipelineStageFlags2 = vk::PipelineStageFlags2::from_raw(
    vk::PipelineStageFlags2::COMPUTE_SHADER.as_raw()
        | vk::PipelineStageFlags2::ALL_TRANSFER.as_raw()
        | vk::PipelineStageFlags2::DRAW_INDIRECT.as_raw(),
);
/// Their writes.
const WRITES: vk::AccessFlags2 = vk::AccessFlags2::from_raw(
    vk::AccessFlags2::SHADER_WRITE.as_raw() | vk::AccessFlags2::TRANSFER_WRITE.as_raw(),
);
/// Their reads.
const READS: vk::AccessFlags2 = vk::AccessFlags2::from_raw(
    vk::AccessFlags2::SHADER_READ.as_raw()
        | vk::AccessFlags2::TRANSFER_READ.as_raw()
        | vk::AccessFlags2::INDIRECT_COMMAND_READ.as_raw(),
);

/// Records a barrier between everything before and everything after.
///
/// # Safety
/// This thread records the command buffer.
pub(crate) unsafe fn barrier(context: &Context, commands: vk::CommandBuffer) {
    // SAFETY: as the caller guarantees.
    unsafe { record_barrier(context, commands, STAGES, READS | WRITES) };
}

/// Records a barrier that makes what was written visible to the host.
///
/// # Safety
/// This thread records the command buffer.
pub(crate) unsafe fn make_visible_to_host(context: &Context, commands: vk::CommandBuffer) {
    let (stage, access) = (vk::PipelineStageFlags2::HOST, vk::AccessFlags2::HOST_READ);
    // SAFETY: as the caller guarantees.
    unsafe { record_barrier(context, commands, stage, access) };
}

unsafe fn record_barrier(
    context: &Context,
    commands: vk::CommandBuffer,
    stages_after: vk::PipelineStageFlags2,
    accesses_after: vk::AccessFlags2,
) {
    let barriers = [vk::MemoryBarrier2::default()
        .src_stage_mask(STAGES)
        .src_access_mask(WRITES)
        .dst_stage_mask(stages_after)
        .dst_access_mask(accesses_after)];
    let info = vk::DependencyInfo::default().memory_barriers(&barriers);
    // SAFETY: as the caller guarantees.
    unsafe { context.device.cmd_pipeline_barrier2(commands, &info) };
}

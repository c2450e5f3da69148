//! Cube counts that the device writes: a count beyond the limits of the device is undefined behaviour of Vulkan, so a
//! kernel of one thread copies the counts before each such launch, and replaces counts beyond the limits by zeros.
//!
//! ```text
//!  counts ──guard──► copy in the command buffer's memory ──barrier──► vkCmdDispatchIndirect
//!                    x, y, z, whether they were replaced ──completed──► logged
//! ```

use ash::vk;
use millstream_gpu::Staging;
use millstream_ir::DType;
use millstream_ir::ssa::{Builder, Function};
use millstream_protocol::Refused;
use millstream_spirv::Target;

use crate::barriers::barrier;
use crate::commands::{Commands, Stored};
use crate::driver::{Context, Interface, Mapped, Pipeline};

/// The kernel.
pub(super) struct CountGuard {
    pipeline: Pipeline,
    limits: [u32; 3],
}

/// The parameters of the kernel: the addresses, then the limits.
type Parameters = [u64; 5];

impl CountGuard {
    /// Compiles the kernel, which lives as long as the context.
    pub(super) fn new(context: &Context) -> Result<Self, Refused> {
        let function = function().map_err(Refused::Task)?;
        // The least that Vulkan guarantees suffices.
        let module = millstream_spirv::lower(&function, &Target::default())
            .map_err(|error| Refused::Task(error.to_string()))?;
        debug_assert_eq!(module.parameter_bytes as usize, size_of::<Parameters>());
        let interface = Interface {
            parameter_bytes: module.parameter_bytes,
            threads: function.threads,
            ..Interface::default()
        };
        let (device, cache) = (&context.device, vk::PipelineCache::null());
        // SAFETY: the lowering makes valid modules.
        let pipeline = unsafe { Pipeline::new(device, &module.words, c"main", interface, cache) }?;
        context.keep_pipeline(pipeline);
        Ok(Self {
            pipeline,
            limits: context.gpu.limits.max_compute_work_group_count,
        })
    }

    /// Records the kernel for the counts at this address, and a barrier after it. Returns where the launch reads them.
    pub(super) fn record(
        &self,
        context: &Context,
        (commands, pool): (&mut Commands, &mut Staging<Mapped>),
        counts: u64,
    ) -> Result<Stored, Refused> {
        let copy = commands.store_counts(pool)?;
        let [x, y, z] = self.limits.map(u64::from);
        let parameters: Parameters = [counts, copy.address, x, y, z];
        let Pipeline { raw, layout, .. } = self.pipeline;
        commands.bound = raw;
        let device = &context.device;
        let (point, stages) = (
            vk::PipelineBindPoint::COMPUTE,
            vk::ShaderStageFlags::COMPUTE,
        );
        // SAFETY: this thread records the command buffer; the pipeline lives as long as the device, and accesses the
        // counts, which the launch's binding covers, and their copy.
        unsafe {
            device.cmd_bind_pipeline(commands.raw, point, raw);
            device.cmd_push_constants(
                commands.raw,
                layout,
                stages,
                0,
                bytemuck::bytes_of(&parameters),
            );
            device.cmd_dispatch(commands.raw, 1, 1, 1);
            barrier(context, commands.raw);
        }
        Ok(copy)
    }
}

fn function() -> Result<Function, String> {
    let k = Builder::new("guard_counts", [1, 1, 1]);
    let (counts, copy) = (k.read("counts", DType::U32), k.write("copy", DType::U32));
    let limits = ["x", "y", "z"].map(|axis| k.scalar(axis, DType::U32));
    let [x, y, z] = [0, 1, 2].map(|axis: i64| counts.get(axis));
    let exceeds = limits[0].lt(x) | limits[1].lt(y) | limits[2].lt(z);
    let (zero, one) = (k.bits(DType::U32, 0), k.bits(DType::U32, 1));
    for (axis, count) in (0_i64..).zip([x, y, z]) {
        copy.set(axis, exceeds.select(zero, count));
    }
    copy.set(3, exceeds.select(one, zero));
    k.build().map_err(|error| error.to_string())
}

//! One launch: resolves bindings, stores the parameters, and records the dispatches.

use ash::vk;
use millstream_protocol::backend::{BoundCount, Launch};
use millstream_protocol::error::Refused;
use millstream_protocol::id::QueueId;
use smallvec::SmallVec;

use super::VulkanDevice;
use crate::kernel::VulkanKernel;
use crate::pages::Location;
use crate::properties::BINDINGS_MAX;

impl VulkanDevice {
    /// Records a launch. A launch without cubes does nothing.
    pub(super) fn launch_kernel(
        &mut self,
        queue: QueueId,
        launch: &Launch<'_>,
    ) -> Result<(), Refused> {
        let Some(kernel) = launch.kernel.downcast_ref::<VulkanKernel>() else {
            return Err(Refused::Task(
                "the kernel was compiled for another device".to_owned(),
            ));
        };
        let mut locations: SmallVec<[Location; BINDINGS_MAX]> = SmallVec::new();
        let mut addresses: SmallVec<[u64; BINDINGS_MAX]> = SmallVec::new();
        for binding in launch.bindings {
            let location = self.pages.resolve(binding)?;
            locations.push(location);
            addresses.push(location.address);
        }
        let (count, dynamic) = match &launch.count {
            BoundCount::Static(count) => (*count, None),
            BoundCount::Dynamic(binding) => ([0; 3], Some(binding)),
        };
        let (entry, cubes) = kernel.select(count, launch.scalars, &addresses);
        let indirect = dynamic
            .map(|binding| self.pages.resolve(binding))
            .transpose()?;
        if indirect.is_none() && cubes.contains(&0) {
            return Ok(());
        }
        if let Some(counts) = indirect
            && counts.offset % 4 != 0
        {
            return Err(Refused::Task(format!(
                "the cube count is at byte {} of its page, expected a multiple of 4",
                counts.offset
            )));
        }
        self.block.clear();
        let alignment = self.descriptor_alignment;
        match entry.has_descriptors {
            false => self.block.push(&addresses),
            true => {
                let offsets: SmallVec<[u64; BINDINGS_MAX]> = locations
                    .iter()
                    .map(|location| location.offset % alignment)
                    .collect();
                self.block.push(&offsets);
            }
        }
        self.block.push(launch.scalars);
        if kernel.metadata_words > 0 || !launch.metadata.is_empty() {
            self.block
                .push_metadata(launch.metadata, kernel.metadata_words)?;
        }
        if entry.has_counts {
            self.block.push_counts(cubes);
        }
        if (entry.parameter_bytes as usize) > self.block.len() * size_of::<u64>() {
            return Err(Refused::Task("the launch has too few scalars".to_owned()));
        }
        let bound = launch.bindings.iter().chain(dynamic);
        let commands = self.queues[queue.index()].record(bound)?;
        let (pipeline, layout) = entry.pipeline();
        let device = &self.context.device;
        let buffer = commands.raw();
        let block = self.block.bytes(entry.parameter_bytes);
        // Before the pipeline is bound: a refused launch does not keep its kernel, and so must not use it.
        let address = match entry.is_spilled {
            true => commands.store(block)?.to_ne_bytes(),
            false => [0; 8],
        };
        if commands.bound != pipeline {
            commands.bound = pipeline;
            // SAFETY: this thread records the command buffer; a pipeline is destroyed once no task uses it.
            unsafe {
                device.cmd_bind_pipeline(buffer, vk::PipelineBindPoint::COMPUTE, pipeline);
            }
        }
        let pushed = match entry.is_spilled {
            true => &address,
            false => block,
        };
        if !pushed.is_empty() {
            let stages = vk::ShaderStageFlags::COMPUTE;
            // SAFETY: the layout has these push constants.
            unsafe { device.cmd_push_constants(buffer, layout, stages, 0, pushed) };
        }
        if entry.has_descriptors {
            self.push_descriptors(buffer, layout, launch, &locations);
        }
        match indirect {
            // SAFETY: the buffer has three `u32` there, which the launch's binding covers.
            Some(counts) => unsafe {
                device.cmd_dispatch_indirect(buffer, counts.buffer, counts.offset);
            },
            None => self.dispatch(buffer, cubes),
        }
        Ok(())
    }

    /// Records the dispatches of a launch: several if it exceeds the limits of the device.
    fn dispatch(&self, commands: vk::CommandBuffer, cubes: [u32; 3]) {
        let device = &self.context.device;
        let limits = self.context.gpu.limits.max_compute_work_group_count;
        let [x, y, z] = cubes;
        if cubes.iter().zip(limits).all(|(count, most)| *count <= most) {
            // SAFETY: this thread records the command buffer, and a pipeline with its arguments is bound. The kernel
            // accesses what its bindings declare, as its author vouches or its lowering guarantees.
            unsafe { device.cmd_dispatch(commands, x, y, z) };
            return;
        }
        let parts = |count: u32, most: u32| {
            let starts = (0..count).step_by(most as usize);
            starts.map(move |start| (start, most.min(count - start)))
        };
        for (z, z_count) in parts(z, limits[2]) {
            for (y, y_count) in parts(y, limits[1]) {
                for (x, x_count) in parts(x, limits[0]) {
                    // SAFETY: as above; the pipeline was created for dispatches with a base.
                    unsafe {
                        device.cmd_dispatch_base(commands, x, y, z, x_count, y_count, z_count);
                    }
                }
            }
        }
    }

    /// Pushes the descriptors of a launch. Each begins at the aligned offset before its binding.
    fn push_descriptors(
        &self,
        commands: vk::CommandBuffer,
        layout: vk::PipelineLayout,
        launch: &Launch<'_>,
        locations: &[Location],
    ) {
        let infos: SmallVec<[vk::DescriptorBufferInfo; BINDINGS_MAX]> = launch
            .bindings
            .iter()
            .zip(locations)
            .map(|(binding, location)| {
                let skipped = location.offset % self.descriptor_alignment;
                match binding.len {
                    0 => vk::DescriptorBufferInfo::default()
                        .buffer(self.nothing.raw())
                        .range(vk::WHOLE_SIZE),
                    len => vk::DescriptorBufferInfo::default()
                        .buffer(location.buffer)
                        .offset(location.offset - skipped)
                        .range(len + skipped),
                }
            })
            .collect();
        let writes = infos.iter().zip(0..).map(|(info, binding)| {
            vk::WriteDescriptorSet::default()
                .dst_binding(binding)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .buffer_info(std::slice::from_ref(info))
        });
        let writes: SmallVec<[_; BINDINGS_MAX]> = writes.collect();
        if let Some(functions) = &self.context.push_descriptor
            && !writes.is_empty()
        {
            let point = vk::PipelineBindPoint::COMPUTE;
            // SAFETY: this thread records the command buffer; the layout has a set of as many pushed descriptors; the
            // ranges lie within pages.
            unsafe { functions.cmd_push_descriptor_set(commands, point, layout, 0, &writes) };
        }
    }
}

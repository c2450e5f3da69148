//! One launch: resolves bindings, stores the parameters, and records the dispatches.

use ash::vk;
use millstream_protocol::{BoundCount, BoundSlice, Launch, PageId, QueueId, Refused};
use smallvec::SmallVec;

use super::VulkanDevice;
use super::count_guard::CountGuard;
use crate::driver::{ALIGNMENT, Context};
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
            let location = Location::of(binding, &self.pages)?;
            locations.push(location);
            addresses.push(location.address);
        }
        let (count, dynamic) = match &launch.count {
            BoundCount::Static(count) => (*count, None),
            BoundCount::Dynamic(binding) => ([0; 3], Some(binding)),
        };
        let (entry, cubes) = kernel.entries.select(count, launch.scalars, &addresses);
        let interface = &entry.interface;
        let indirect = dynamic
            .map(|binding| Location::of(binding, &self.pages))
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
        let limits = self.context.gpu.limits.max_compute_work_group_count;
        if !interface.is_divisible && !fits(cubes, limits) {
            let [x, y, z] = limits;
            return Err(Refused::Task(format!(
                "expected at most {x}, {y} and {z} cubes along the axes in a launch of SPIR-V, got {cubes:?}; use a \
                 kernel of the IR, or another geometry"
            )));
        }
        self.block.clear();
        match &kernel.immediates {
            Some(places) => {
                self.check_alignment(launch, &locations)?;
                self.block
                    .place(launch.scalars, places, interface.parameter_bytes);
            }
            None => {
                match interface.descriptors.is_some() {
                    false => self.block.push(&addresses),
                    true => {
                        let offset =
                            |location: &Location| location.offset % self.descriptor_alignment;
                        let offsets: SmallVec<[u64; BINDINGS_MAX]> =
                            locations.iter().map(offset).collect();
                        self.block.push(&offsets);
                    }
                }
                self.block.push(launch.scalars);
            }
        }
        if kernel.metadata_words > 0 || !launch.metadata.is_empty() {
            self.block
                .push_metadata(launch.metadata, kernel.metadata_words)?;
        }
        if interface.has_grid {
            self.block.push_grid(cubes);
        }
        if (interface.parameter_bytes as usize) > self.block.len() * size_of::<u64>() {
            return Err(Refused::Task("the launch has too few scalars".to_owned()));
        }
        let infos = match interface.descriptors.is_some() {
            true => self.descriptor_infos(queue, launch, &locations),
            false => SmallVec::new(),
        };
        if indirect.is_some() && self.count_guard.is_none() {
            self.count_guard = Some(CountGuard::new(&self.context)?);
        }
        let alignment = self.descriptor_alignment;
        let Self {
            context,
            queues,
            block,
            count_guard,
            stored,
            ..
        } = self;
        let device = &context.device;
        let queue = &mut queues[queue.index()];
        let commands = match interface.descriptors.is_some() {
            false => queue.record(launch.bindings.iter().chain(dynamic))?,
            true => {
                let covered = launch.bindings.iter();
                let covered = covered.map(|binding| covered_by_descriptor(binding, alignment));
                let covered: SmallVec<[_; BINDINGS_MAX]> = covered.collect();
                queue.record(covered.iter().chain(dynamic))?
            }
        };
        let indirect = match (&*count_guard, indirect) {
            (Some(guard), Some(counts)) => {
                Some(guard.record(context, (&mut *commands, &mut *stored), counts.address)?)
            }
            _ => None,
        };
        let (pipeline, layout) = (entry.pipeline.raw, entry.pipeline.layout);
        let (buffer, bytes) = (commands.raw, interface.parameter_bytes);
        let parts = || {
            let cubes = match indirect {
                // One dispatch.
                Some(_) => [1; 3],
                None => cubes,
            };
            dispatches(cubes, limits)
        };
        // Before the pipeline is bound: a refused launch does not keep its kernel, and so must not use it.
        let mut spilled: SmallVec<[u64; 1]> = SmallVec::new();
        if interface.is_spilled {
            for (first, _) in parts() {
                block.set_first_cube(first, interface.has_grid);
                spilled.push(commands.store(stored, block.bytes(bytes))?.address);
            }
        }
        if commands.bound != pipeline {
            commands.bound = pipeline;
            // SAFETY: this thread records the command buffer; a pipeline is destroyed once no task uses it.
            unsafe {
                device.cmd_bind_pipeline(buffer, vk::PipelineBindPoint::COMPUTE, pipeline);
            }
        }
        push_descriptors(context, buffer, layout, &infos);
        for (nth, (first, [x, y, z])) in parts().enumerate() {
            block.set_first_cube(first, interface.has_grid);
            let pushed = match spilled.get(nth) {
                Some(address) => bytemuck::bytes_of(address),
                None => block.bytes(bytes),
            };
            // SAFETY: this thread records the command buffer, and a pipeline with its arguments is bound, whose layout has
            // these push constants. The kernel accesses what its bindings declare, as its author vouches or its lowering
            // guarantees. The counts are three `u32`, within the limits of the device.
            unsafe {
                if !pushed.is_empty() {
                    let stages = vk::ShaderStageFlags::COMPUTE;
                    device.cmd_push_constants(buffer, layout, stages, 0, pushed);
                }
                match indirect {
                    Some(counts) => {
                        device.cmd_dispatch_indirect(buffer, counts.buffer, counts.offset);
                    }
                    None => device.cmd_dispatch(buffer, x, y, z),
                }
            }
        }
        Ok(())
    }

    /// Returns an error if a descriptor cannot begin at a binding.
    fn check_alignment(&self, launch: &Launch<'_>, locations: &[Location]) -> Result<(), Refused> {
        let alignment = self.descriptor_alignment;
        let misaligned = locations
            .iter()
            .position(|location| location.offset % alignment != 0);
        let Some(index) = misaligned else {
            return Ok(());
        };
        let offset = launch.bindings[index].slice_offset;
        Err(Refused::Task(format!(
            "binding {index} begins at byte {offset} of its slice, but on this device a binding of a kernel in WGSL \
             begins at a multiple of {alignment}; copy it to a slice of its own, or use SPIR-V with addresses"
        )))
    }

    /// Returns the descriptors of a launch. Each begins at the aligned offset before its binding.
    fn descriptor_infos(
        &self,
        queue: QueueId,
        launch: &Launch<'_>,
        locations: &[Location],
    ) -> SmallVec<[vk::DescriptorBufferInfo; BINDINGS_MAX]> {
        let pairs = launch.bindings.iter().zip(locations);
        let info = |(binding, location): (&BoundSlice, &Location)| {
            let skipped = location.offset % self.descriptor_alignment;
            match binding.len {
                0 => vk::DescriptorBufferInfo::default()
                    .buffer(self.nothing.raw)
                    .offset(queue.index() as u64 * ALIGNMENT)
                    .range(ALIGNMENT),
                len => vk::DescriptorBufferInfo::default()
                    .buffer(location.buffer)
                    .offset(location.offset - skipped)
                    .range(len + skipped),
            }
        };
        pairs.map(info).collect()
    }
}

/// Returns the range that the descriptor of a binding covers. It begins at the aligned offset before the binding; that of
/// an empty binding covers a buffer of the device. The validation layer takes all of it for accessed.
pub(super) fn covered_by_descriptor(binding: &BoundSlice, alignment: u64) -> BoundSlice {
    let (page, offset, len) = match binding.len {
        0 => (Some(PageId::NONE), 0, 1),
        len => (binding.page, binding.offset, len),
    };
    let skipped = offset % alignment;
    BoundSlice {
        page,
        offset: offset - skipped,
        len: len + skipped,
        ..*binding
    }
}

/// Whether one dispatch has room for these cubes.
fn fits(cubes: [u32; 3], limits: [u32; 3]) -> bool {
    cubes.iter().zip(limits).all(|(count, most)| *count <= most)
}

/// Returns the first cube and the cube count of each dispatch of a launch: several if the launch exceeds the limits.
fn dispatches([x, y, z]: [u32; 3], limits: [u32; 3]) -> impl Iterator<Item = ([u32; 3], [u32; 3])> {
    let parts = |count: u32, most: u32| {
        let starts = (0..count).step_by(most as usize);
        starts.map(move |start| (start, most.min(count - start)))
    };
    parts(z, limits[2]).flat_map(move |(z, depth)| {
        parts(y, limits[1]).flat_map(move |(y, height)| {
            parts(x, limits[0]).map(move |(x, width)| ([x, y, z], [width, height, depth]))
        })
    })
}

/// Records the descriptors of a launch, if there are any.
fn push_descriptors(
    context: &Context,
    commands: vk::CommandBuffer,
    layout: vk::PipelineLayout,
    infos: &[vk::DescriptorBufferInfo],
) {
    let writes = infos.iter().zip(0..).map(|(info, binding)| {
        vk::WriteDescriptorSet::default()
            .dst_binding(binding)
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .buffer_info(std::slice::from_ref(info))
    });
    let writes: SmallVec<[_; BINDINGS_MAX]> = writes.collect();
    if let Some(functions) = &context.push_descriptor
        && !writes.is_empty()
    {
        let point = vk::PipelineBindPoint::COMPUTE;
        // SAFETY: this thread records the command buffer; the layout has a set of as many pushed descriptors; the
        // ranges lie within pages.
        unsafe { functions.cmd_push_descriptor_set(commands, point, layout, 0, &writes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dispatches_of_a_launch_cover_each_cube_once_within_the_limits() {
        let limits = [4, 3, 2];
        for counts in [[4, 3, 2], [5, 1, 1], [1, 7, 1], [9, 4, 5], [0, 1, 1]] {
            let mut cubes = Vec::new();
            for (first, size) in dispatches(counts, limits) {
                assert!(fits(size, limits), "{size:?}");
                let along = |axis: usize| first[axis]..first[axis] + size[axis];
                for z in along(2) {
                    for y in along(1) {
                        cubes.extend(along(0).map(|x| [z, y, x]));
                    }
                }
            }
            cubes.sort_unstable();
            let count = cubes.len();
            cubes.dedup();
            assert_eq!(cubes.len(), count);
            assert_eq!(count, counts.iter().product::<u32>() as usize);
        }
    }
}

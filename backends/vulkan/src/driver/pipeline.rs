//! Compute pipelines.

use ash::vk;

use super::Code;

/// How an entry point receives its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Interface {
    /// Bytes of the parameter block.
    pub(crate) parameter_bytes: u32,
    /// Whether the push constants hold the address of the parameter block instead of the block.
    pub(crate) is_spilled: bool,
    /// Whether the block ends with the grid.
    pub(crate) has_grid: bool,
    /// Whether a launch may be several dispatches: modules of users do not know the place of a dispatch in its launch.
    pub(crate) is_divisible: bool,
    /// The number of storage buffers in descriptor set 0, which are pushed; `None` if the buffers are addresses.
    pub(crate) descriptors: Option<u32>,
    /// The size of subgroups, all full, that the module needs; 0 if any will do.
    pub(crate) subgroup_width: u32,
    /// The threads of a cube: the values of the specialization constants 0, 1 and 2, if the module has them.
    pub(crate) threads: [u32; 3],
}

impl Interface {
    /// Returns the bytes of the push constants.
    pub(crate) fn push_bytes(&self) -> u32 {
        match self.is_spilled {
            true => size_of::<u64>() as u32,
            false => self.parameter_bytes,
        }
    }
}

/// A compute pipeline and its layout. [`Pipeline::destroy`] destroys them once no task uses them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pipeline {
    pub(crate) raw: vk::Pipeline,
    pub(crate) layout: vk::PipelineLayout,
    set: vk::DescriptorSetLayout,
}

impl Pipeline {
    /// Creates the pipeline of the entry point `entry` of a module.
    ///
    /// # Safety
    /// The module is valid SPIR-V that uses only enabled features, and its interface is `interface`.
    pub(crate) unsafe fn new(
        device: &ash::Device,
        words: &[u32],
        entry: &std::ffi::CStr,
        interface: Interface,
        cache: vk::PipelineCache,
    ) -> Result<Self, Code> {
        let mut pipeline = Self {
            raw: vk::Pipeline::null(),
            layout: vk::PipelineLayout::null(),
            set: vk::DescriptorSetLayout::null(),
        };
        // SAFETY: as the caller guarantees; the infos are valid, and so are the handles in them.
        let created = unsafe { pipeline.create(device, words, entry, interface, cache) };
        match created {
            Ok(()) => Ok(pipeline),
            Err(code) => {
                pipeline.destroy(device);
                Err(code)
            }
        }
    }

    unsafe fn create(
        &mut self,
        device: &ash::Device,
        words: &[u32],
        entry: &std::ffi::CStr,
        interface: Interface,
        cache: vk::PipelineCache,
    ) -> Result<(), Code> {
        let bindings: Vec<_> = (0..interface.descriptors.unwrap_or_default())
            .map(descriptor)
            .collect();
        let sets = match bindings.is_empty() {
            true => &[][..],
            false => {
                let info = vk::DescriptorSetLayoutCreateInfo::default()
                    .flags(vk::DescriptorSetLayoutCreateFlags::PUSH_DESCRIPTOR_KHR)
                    .bindings(&bindings);
                // SAFETY: the info is valid.
                self.set = unsafe { device.create_descriptor_set_layout(&info, None) }
                    .map_err(Code::of("vkCreateDescriptorSetLayout"))?;
                std::slice::from_ref(&self.set)
            }
        };
        let pushed = [vk::PushConstantRange::default()
            .stage_flags(vk::ShaderStageFlags::COMPUTE)
            .size(interface.push_bytes())];
        let pushed = &pushed[..usize::from(interface.push_bytes() > 0)];
        let info = vk::PipelineLayoutCreateInfo::default()
            .set_layouts(sets)
            .push_constant_ranges(pushed);
        // SAFETY: the info is valid.
        self.layout = unsafe { device.create_pipeline_layout(&info, None) }
            .map_err(Code::of("vkCreatePipelineLayout"))?;
        let info = vk::ShaderModuleCreateInfo::default().code(words);
        // SAFETY: the module is valid, as the caller guarantees.
        let module = unsafe { device.create_shader_module(&info, None) }
            .map_err(Code::of("vkCreateShaderModule"))?;
        let constants: [_; 3] = std::array::from_fn(|axis| {
            vk::SpecializationMapEntry::default()
                .constant_id(axis as u32)
                .offset((axis * size_of::<u32>()) as u32)
                .size(size_of::<u32>())
        });
        let constants = vk::SpecializationInfo::default()
            .map_entries(&constants)
            .data(bytemuck::bytes_of(&interface.threads));
        let mut subgroups = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default()
            .required_subgroup_size(interface.subgroup_width);
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(entry)
            .specialization_info(&constants);
        if interface.subgroup_width > 0 {
            stage = stage
                .flags(vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS)
                .push_next(&mut subgroups);
        }
        let info = vk::ComputePipelineCreateInfo::default()
            .stage(stage)
            .layout(self.layout);
        // SAFETY: the info is valid, and the module is destroyed after its use.
        let created = unsafe {
            let created = device.create_compute_pipelines(cache, &[info], None);
            device.destroy_shader_module(module, None);
            created
        };
        // The only pipeline was refused, so there is none to destroy; the driver may have left the handle unwritten.
        let created =
            created.map_err(|(_, result)| Code::of("vkCreateComputePipelines")(result))?;
        self.raw = created.first().copied().unwrap_or_default();
        Ok(())
    }

    /// Destroys the pipeline.
    pub(crate) fn destroy(self, device: &ash::Device) {
        // SAFETY: created once, destroyed once; no task uses it any more. Null handles are ignored.
        unsafe {
            device.destroy_pipeline(self.raw, None);
            device.destroy_pipeline_layout(self.layout, None);
            device.destroy_descriptor_set_layout(self.set, None);
        }
    }
}

/// Returns the storage buffer at this binding.
fn descriptor(binding: u32) -> vk::DescriptorSetLayoutBinding<'static> {
    vk::DescriptorSetLayoutBinding::default()
        .binding(binding)
        .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
        .descriptor_count(1)
        .stage_flags(vk::ShaderStageFlags::COMPUTE)
}

//! A logical device, its queues, and the pipeline of the kernel.

use ash::vk;
use millstream::vulkan::AdoptedQueue;

use crate::error::BenchError;

/// The bytes of the kernel's module.
const BYTES: &[u8] = include_bytes!("../../../../../tests/vulkan/kernels/addresses/add_one.spv");

/// The module of the kernel `add_one`, whose push constants are an address and a count.
pub(crate) const SPIRV: &[u32] = &{
    let mut words = [0; BYTES.len() / 4];
    let mut at = 0;
    while at < words.len() {
        let byte = 4 * at;
        words[at] = u32::from_le_bytes([
            BYTES[byte],
            BYTES[byte + 1],
            BYTES[byte + 2],
            BYTES[byte + 3],
        ]);
        at += 1;
    }
    words
};

/// Bytes of the push constants: an address and a count.
pub(super) const PUSHED: usize = 12;

/// A logical device. Destroyed on drop.
pub(crate) struct Gpu {
    /// Keeps the loader open.
    _entry: ash::Entry,
    pub(crate) instance: ash::Instance,
    pub(crate) physical: vk::PhysicalDevice,
    pub(crate) device: ash::Device,
    pub(crate) family: u32,
    /// One queue, or two if the family has as many.
    queues: Vec<vk::Queue>,
    module: vk::ShaderModule,
    pub(super) layout: vk::PipelineLayout,
    pub(super) pipeline: vk::Pipeline,
}

impl Gpu {
    /// Opens the first GPU.
    pub(crate) fn open() -> Result<Self, BenchError> {
        // SAFETY: the loader has no unsound initialization.
        let entry = unsafe { ash::Entry::load() }?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: `info` is valid.
        let instance = unsafe { entry.create_instance(&info, None) }?;
        // SAFETY: the instance is alive.
        let gpus = unsafe { instance.enumerate_physical_devices() }?;
        let physical = *gpus.first().ok_or(BenchError::Missing("a GPU"))?;
        // SAFETY: the physical device belongs to the instance.
        let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
        let is_compute = |family: &vk::QueueFamilyProperties| {
            family.queue_flags.contains(vk::QueueFlags::COMPUTE)
        };
        let family = families.iter().position(is_compute);
        let family = family.ok_or(BenchError::Missing("a queue for compute"))?;
        let count = families[family].queue_count.min(2);
        let family = family as u32;
        let device = device(&instance, physical, family, count)?;
        // SAFETY: the device was created with these queues.
        let queues = (0..count).map(|index| unsafe { device.get_device_queue(family, index) });
        let queues = queues.collect();
        let (module, layout, pipeline) = pipeline(&device)?;
        Ok(Self {
            _entry: entry,
            instance,
            physical,
            family,
            queues,
            module,
            layout,
            pipeline,
            device,
        })
    }

    /// Returns one of two queues, which may be the same.
    pub(crate) fn queue(&self, index: usize) -> vk::Queue {
        self.queues[index % self.queues.len()]
    }

    /// Returns the queues for millstream.
    pub(crate) fn adoptable(&self) -> impl Iterator<Item = AdoptedQueue> {
        let family = self.family;
        self.queues
            .iter()
            .map(move |raw| AdoptedQueue { family, raw: *raw })
    }
}

fn device(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    family: u32,
    count: u32,
) -> Result<ash::Device, vk::Result> {
    let priorities = [1.0, 1.0];
    let queues = [vk::DeviceQueueCreateInfo::default()
        .queue_family_index(family)
        .queue_priorities(&priorities[..count as usize])];
    let basic = vk::PhysicalDeviceFeatures::default().shader_int64(true);
    let mut of_1_2 = vk::PhysicalDeviceVulkan12Features::default()
        .timeline_semaphore(true)
        .buffer_device_address(true)
        .scalar_block_layout(true);
    let mut of_1_3 = vk::PhysicalDeviceVulkan13Features::default().synchronization2(true);
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_features(&basic)
        .push_next(&mut of_1_2)
        .push_next(&mut of_1_3);
    // SAFETY: everything that `info` points to lives until the call returns.
    unsafe { instance.create_device(physical, &info, None) }
}

fn pipeline(
    device: &ash::Device,
) -> Result<(vk::ShaderModule, vk::PipelineLayout, vk::Pipeline), vk::Result> {
    let ranges = [vk::PushConstantRange {
        stage_flags: vk::ShaderStageFlags::COMPUTE,
        offset: 0,
        size: PUSHED as u32,
    }];
    // SAFETY: the module is valid SPIR-V, and its push constants are those of the layout.
    unsafe {
        let info = vk::ShaderModuleCreateInfo::default().code(SPIRV);
        let module = device.create_shader_module(&info, None)?;
        let info = vk::PipelineLayoutCreateInfo::default().push_constant_ranges(&ranges);
        let layout = device.create_pipeline_layout(&info, None)?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        let info = [vk::ComputePipelineCreateInfo::default()
            .stage(stage)
            .layout(layout)];
        let created = device.create_compute_pipelines(vk::PipelineCache::null(), &info, None);
        let pipelines = created.map_err(|(_, error)| error)?;
        Ok((module, layout, pipelines[0]))
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: the recorders and memory borrow the GPU, so nothing uses these objects any more.
        unsafe {
            let _ = self.device.device_wait_idle();
            self.device.destroy_pipeline(self.pipeline, None);
            self.device.destroy_pipeline_layout(self.layout, None);
            self.device.destroy_shader_module(self.module, None);
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}

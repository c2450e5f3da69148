//! A logical device, its queues, and the pipelines of the kernels.

use ash::vk;
use millstream::vulkan::AdoptedQueue;

use crate::error::BenchError;

const ADD_ONE: &[u8] = include_bytes!("../../../../../tests/vulkan/kernels/addresses/add_one.spv");
const ADD_ONE_AT: &[u8] = include_bytes!("../../kernels/add_one_at.spv");

/// The module of the kernel `add_one`, whose push constants are an address and a count.
pub(crate) const SPIRV: &[u32] = &words::<{ ADD_ONE.len() / 4 }>(ADD_ONE);

/// The module of the same kernel with these arguments in a buffer, whose address is the push constants.
const SPIRV_AT: &[u32] = &words::<{ ADD_ONE_AT.len() / 4 }>(ADD_ONE_AT);

/// Bytes of the arguments: an address and a count.
pub(super) const ARGUMENT_BYTES: usize = 12;

/// Returns the words of a module's bytes.
const fn words<const WORDS: usize>(bytes: &[u8]) -> [u32; WORDS] {
    let mut words = [0; WORDS];
    let mut at = 0;
    while at < WORDS {
        let byte = 4 * at;
        words[at] = u32::from_le_bytes([
            bytes[byte],
            bytes[byte + 1],
            bytes[byte + 2],
            bytes[byte + 3],
        ]);
        at += 1;
    }
    words
}

/// A kernel with its pipeline.
pub(super) struct RawKernel {
    module: vk::ShaderModule,
    pub(super) layout: vk::PipelineLayout,
    pub(super) pipeline: vk::Pipeline,
}

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
    pub(super) add_one: RawKernel,
    /// `add_one` with its arguments in a buffer.
    pub(super) add_one_at: RawKernel,
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
        let add_one = kernel(&device, SPIRV, ARGUMENT_BYTES)?;
        let add_one_at = kernel(&device, SPIRV_AT, size_of::<u64>())?;
        Ok(Self {
            _entry: entry,
            instance,
            physical,
            family,
            queues,
            add_one,
            add_one_at,
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

/// Creates a kernel with this many bytes of push constants.
fn kernel(
    device: &ash::Device,
    code: &[u32],
    pushed_bytes: usize,
) -> Result<RawKernel, vk::Result> {
    let ranges = [vk::PushConstantRange {
        stage_flags: vk::ShaderStageFlags::COMPUTE,
        offset: 0,
        size: pushed_bytes as u32,
    }];
    // SAFETY: the module is valid SPIR-V, and its push constants are those of the layout.
    unsafe {
        let info = vk::ShaderModuleCreateInfo::default().code(code);
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
        Ok(RawKernel {
            module,
            layout,
            pipeline: pipelines[0],
        })
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: the recorders and memory borrow the GPU, so nothing uses these objects any more.
        unsafe {
            let _ = self.device.device_wait_idle();
            for kernel in [&self.add_one, &self.add_one_at] {
                self.device.destroy_pipeline(kernel.pipeline, None);
                self.device.destroy_pipeline_layout(kernel.layout, None);
                self.device.destroy_shader_module(kernel.module, None);
            }
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}

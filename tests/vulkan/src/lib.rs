//! A device of Vulkan as an application creates it, for tests that adopt it and benches that call it directly. The tests are
//! in `tests`.

use std::ffi::CStr;

use ash::vk;

/// A device with queues of one family that supports compute, on the first GPU. Destroyed on drop, after a wait for its work.
pub struct Application {
    /// The loader.
    pub entry: ash::Entry,
    /// The instance, of version 1.3.
    pub instance: ash::Instance,
    /// The GPU.
    pub physical: vk::PhysicalDevice,
    /// The device, with what millstream requires.
    pub device: ash::Device,
    /// The family of the queues.
    pub family: u32,
    /// The queues.
    pub queues: Vec<vk::Queue>,
}

/// Why there is no device.
#[derive(Debug, thiserror::Error)]
pub enum NoDevice {
    /// The loader cannot be opened.
    #[error("the Vulkan loader cannot be opened: {0}")]
    Loader(#[from] ash::LoadingError),
    /// The driver refused a call.
    #[error("a call of the Vulkan driver failed: {0}")]
    Call(#[from] vk::Result),
    /// There is no such GPU.
    #[error("the Vulkan driver does not offer {0}")]
    Missing(&'static str),
}

impl Application {
    /// Creates a device with at most `queues` queues, of which there are at most two, and the extensions that `extensions`
    /// chooses.
    ///
    /// # Errors
    /// There is no GPU, or the driver refuses the device.
    pub fn new(
        queues: u32,
        extensions: impl FnOnce(&ash::Entry, &ash::Instance, vk::PhysicalDevice) -> Vec<&'static CStr>,
    ) -> Result<Self, NoDevice> {
        // SAFETY: plain use of Vulkan; everything that the infos point to lives until the calls return.
        unsafe {
            let entry = ash::Entry::load()?;
            let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
            let info = vk::InstanceCreateInfo::default().application_info(&application);
            let instance = entry.create_instance(&info, None)?;
            let gpus = instance.enumerate_physical_devices()?;
            let physical = *gpus.first().ok_or(NoDevice::Missing("a GPU"))?;
            let families = instance.get_physical_device_queue_family_properties(physical);
            let computes =
                |of: &vk::QueueFamilyProperties| of.queue_flags.contains(vk::QueueFlags::COMPUTE);
            let family = families.iter().position(computes);
            let family = family.ok_or(NoDevice::Missing("a queue for compute"))?;
            let count = families[family].queue_count.min(queues).min(2);
            let family = family as u32;
            let infos = [vk::DeviceQueueCreateInfo::default()
                .queue_family_index(family)
                .queue_priorities(&[1.0; 2][..count as usize])];
            let basic = vk::PhysicalDeviceFeatures::default().shader_int64(true);
            let mut of_1_2 = vk::PhysicalDeviceVulkan12Features::default()
                .timeline_semaphore(true)
                .buffer_device_address(true)
                .scalar_block_layout(true);
            let mut of_1_3 = vk::PhysicalDeviceVulkan13Features::default().synchronization2(true);
            let extensions = extensions(&entry, &instance, physical).into_iter();
            let extensions: Vec<_> = extensions.map(CStr::as_ptr).collect();
            let info = vk::DeviceCreateInfo::default()
                .queue_create_infos(&infos)
                .enabled_features(&basic)
                .enabled_extension_names(&extensions)
                .push_next(&mut of_1_2)
                .push_next(&mut of_1_3);
            let device = instance.create_device(physical, &info, None)?;
            let queue = |index| device.get_device_queue(family, index);
            Ok(Self {
                queues: (0..count).map(queue).collect(),
                entry,
                instance,
                physical,
                device,
                family,
            })
        }
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        // SAFETY: nothing uses the device any more.
        unsafe {
            // After a loss nothing runs.
            let _ = self.device.device_wait_idle();
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}

//! Creating a device of wgpu that millstream can use, and adopting it.
//!
//! wgpu does not enable the addresses of buffers, and the features of a device can be neither changed nor queried
//! later. So the device is created with them, in wgpu's callback, which also adds the queues for millstream.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ash::{khr, vk};
use millstream::Vulkan;
use millstream::vulkan::{AdoptedDevice, AdoptedFeatures, AdoptedQueue, calibration_extension};
use wgpu::hal::api::Vulkan as Api;
use wgpu::hal::vulkan::{Adapter, CreateDeviceCallbackArgs};

use crate::WgpuError;

/// The most queues of its own that a device of millstream receives.
const OWN_QUEUES_MAX: usize = 4;

/// The priorities of wgpu's queue and of ours: wgpu creates its own with 1.0, and ours are no more urgent.
static PRIORITIES: [f32; 1 + OWN_QUEUES_MAX] = [1.0; 1 + OWN_QUEUES_MAX];

/// What wgpu's device needs so that millstream can use it: features of Vulkan, and queues. One setup serves one device
/// at a time. Clones are the same setup.
#[derive(Clone, Default)]
pub struct WgpuSetup(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The device that was created last.
    enabled: Option<Enabled>,
    /// Structs that the creation of a device reads after [`WgpuSetup::enable`] has returned.
    #[expect(
        clippy::vec_box,
        reason = "the driver reads the structs at their addresses"
    )]
    chained: Vec<Box<Chained>>,
}

/// What was enabled on a device.
#[derive(Clone)]
struct Enabled {
    physical: vk::PhysicalDevice,
    /// Families and indices of queues for millstream.
    queues: Vec<(u32, u32)>,
    push_descriptor: bool,
    calibrated_timestamps: bool,
}

#[derive(Default)]
struct Chained {
    addresses: vk::PhysicalDeviceBufferDeviceAddressFeatures<'static>,
    layouts: vk::PhysicalDeviceScalarBlockLayoutFeatures<'static>,
    synchronization: vk::PhysicalDeviceSynchronization2Features<'static>,
}

// SAFETY: the pointers in the structs are those of the chain, which only the thread that creates the device follows.
unsafe impl Send for Chained {}

impl WgpuSetup {
    /// Creates a setup.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the features of wgpu that millstream needs (64-bit integers), and those of this adapter that its kernels
    /// can use: other types of numbers.
    pub fn features(adapter: &wgpu::Adapter) -> wgpu::Features {
        use wgpu::Features as F;
        let optional =
            F::SHADER_F64 | F::SHADER_F16 | F::SHADER_I16 | F::SHADER_INT64_ATOMIC_ALL_OPS;
        F::SHADER_INT64 | (optional & adapter.features())
    }

    /// Creates a device of wgpu that millstream can use, with [`WgpuSetup::features`] and those of the descriptor.
    ///
    /// # Errors
    /// The adapter is not of Vulkan, lacks a feature, or the driver refuses the device.
    pub fn request_device(
        &self,
        adapter: &wgpu::Adapter,
        descriptor: &wgpu::DeviceDescriptor<'_>,
    ) -> Result<(wgpu::Device, wgpu::Queue), WgpuError> {
        let descriptor = wgpu::DeviceDescriptor {
            required_features: descriptor.required_features | Self::features(adapter),
            ..descriptor.clone()
        };
        let missing = descriptor.required_features - adapter.features();
        if !missing.is_empty() {
            return Err(WgpuError::Features(missing));
        }
        let refused = |error: &dyn std::fmt::Display| WgpuError::Device(error.to_string());
        // SAFETY: the guard only reads the adapter.
        let raw = unsafe { adapter.as_hal::<Api>() }.ok_or(WgpuError::NotVulkan)?;
        // SAFETY: the setup, which this function borrows, only adds what the device has.
        let enable = |mut args: CreateDeviceCallbackArgs<'_, '_, '_>| unsafe {
            self.enable(&mut args, &raw);
        };
        // SAFETY: the features are those of the adapter, and the callback keeps the rules of `open_with_callback`.
        unsafe {
            let open = raw.open_with_callback(
                descriptor.required_features,
                &descriptor.required_limits,
                &descriptor.memory_hints,
                Some(Box::new(enable)),
            );
            let open = open.map_err(|error| refused(&error))?;
            let created = adapter.create_device_from_hal::<Api>(open, &descriptor);
            created.map_err(|error| refused(&error))
        }
    }

    /// Enables what millstream needs, in a callback of `wgpu::hal::vulkan::Adapter::open_with_callback`, or of Bevy's
    /// `RawVulkanInitSettings::add_create_device_callback`. The device also needs [`WgpuSetup::features`].
    ///
    /// # Safety
    /// The arguments are those of a callback for this adapter. The setup, or a clone, lives until the device is created.
    pub unsafe fn enable(
        &self,
        args: &mut CreateDeviceCallbackArgs<'_, '_, '_>,
        adapter: &Adapter,
    ) {
        let physical = adapter.raw_physical_device();
        let instance = adapter.shared_instance().raw_instance();
        let mut has = Chained::default();
        let mut all = vk::PhysicalDeviceFeatures2::default()
            .push_next(&mut has.addresses)
            .push_next(&mut has.layouts)
            .push_next(&mut has.synchronization);
        // SAFETY: the physical device belongs to the instance. An unknown struct of the chain is left as it is.
        unsafe { instance.get_physical_device_features2(physical, &mut all) };
        // SAFETY: as above.
        let extensions = unsafe { instance.enumerate_device_extension_properties(physical) };
        let extensions = extensions.unwrap_or_default();
        let has_extension = |name| {
            let mut names = extensions.iter().map(|one| one.extension_name_as_c_str());
            names.any(|known| known == Ok(name))
        };
        // SAFETY: as above.
        let properties = unsafe { instance.get_physical_device_properties(physical) };
        let mut add = |name| {
            let has = has_extension(name);
            if has && !args.extensions.contains(&name) {
                args.extensions.push(name);
            }
            has
        };
        let push_descriptor = add(khr::push_descriptor::NAME);
        let entry = adapter.shared_instance().entry();
        // SAFETY: wgpu has created the instance by this entry, and the physical device belongs to it.
        let calibration = unsafe { calibration_extension(entry, instance, physical) };
        let calibrated_timestamps = calibration.is_some_and(&mut add);
        if properties.api_version < vk::API_VERSION_1_3 {
            add(khr::synchronization2::NAME);
        }
        // SAFETY: as above.
        let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
        let queues = add_queues(args.queue_create_infos, &families);

        let mut chained = Box::new(Chained {
            addresses: vk::PhysicalDeviceBufferDeviceAddressFeatures::default()
                .buffer_device_address(has.addresses.buffer_device_address == vk::TRUE),
            layouts: vk::PhysicalDeviceScalarBlockLayoutFeatures::default()
                .scalar_block_layout(has.layouts.scalar_block_layout == vk::TRUE),
            synchronization: vk::PhysicalDeviceSynchronization2Features::default()
                .synchronization2(has.synchronization.synchronization2 == vk::TRUE),
        });
        let structs: *mut Chained = &raw mut *chained;
        // SAFETY: the setup keeps the box, and lives until the device is created.
        let structs = unsafe { &mut *structs };
        let mut info = std::mem::take(args.create_info)
            .push_next(&mut structs.layouts)
            .push_next(&mut structs.synchronization);
        // For ray tracing wgpu enables the addresses itself.
        if !args.extensions.contains(&khr::buffer_device_address::NAME) {
            info = info.push_next(&mut structs.addresses);
        }
        *args.create_info = info;
        let mut state = self.state();
        state.chained.push(chained);
        state.enabled = Some(Enabled {
            physical,
            queues,
            push_descriptor,
            calibrated_timestamps,
        });
    }

    /// Returns `true` if the device that was created last has queues for millstream alone.
    pub fn has_own_queues(&self) -> bool {
        let state = self.state();
        let enabled = state.enabled.as_ref();
        enabled.is_some_and(|enabled| !enabled.queues.is_empty())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic under the lock leaves the state consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds queues for millstream: of a family that only computes, or else further ones of a family that wgpu uses. Returns
/// their families and indices; none if the device has no more queues.
fn add_queues(
    infos: &mut Vec<vk::DeviceQueueCreateInfo<'_>>,
    families: &[vk::QueueFamilyProperties],
) -> Vec<(u32, u32)> {
    let can_compute = |family: u32| {
        let family = families.get(family as usize);
        family.is_some_and(|family| family.queue_flags.contains(vk::QueueFlags::COMPUTE))
    };
    let is_dedicated = |family: &u32| {
        let flags = families[*family as usize].queue_flags;
        can_compute(*family) && !flags.contains(vk::QueueFlags::GRAPHICS)
    };
    let is_used = |family: u32| infos.iter().any(|info| info.queue_family_index == family);
    let mut all = 0..families.len() as u32;
    if let Some(family) = all.find(|family| is_dedicated(family) && !is_used(*family)) {
        let count = (families[family as usize].queue_count as usize).min(OWN_QUEUES_MAX);
        let info = vk::DeviceQueueCreateInfo::default()
            .queue_family_index(family)
            .queue_priorities(&PRIORITIES[..count]);
        infos.push(info);
        return (0..count as u32).map(|index| (family, index)).collect();
    }
    for info in infos
        .iter_mut()
        .filter(|info| can_compute(info.queue_family_index))
    {
        let family = info.queue_family_index;
        let (used, offered) = (info.queue_count, families[family as usize].queue_count);
        let count = (offered.min(PRIORITIES.len() as u32)).max(used);
        // Queues with other priorities or flags belong to another callback.
        if used == 1 && count > used && info.p_next.is_null() && info.flags.is_empty() {
            *info = vk::DeviceQueueCreateInfo::default()
                .queue_family_index(family)
                .queue_priorities(&PRIORITIES[..count as usize]);
            return (used..count).map(|index| (family, index)).collect();
        }
    }
    Vec::new()
}

/// Adds devices of wgpu to [`Vulkan`].
pub trait AdoptWgpu: Sized {
    /// Adopts the device of wgpu that was created with `setup`. The device of millstream holds wgpu's device and queue.
    ///
    /// Queues of its own serve millstream if there are any ([`WgpuSetup::has_own_queues`]). Otherwise it shares wgpu's
    /// queue, and opens only as a driven device.
    ///
    /// # Errors
    /// wgpu does not run on Vulkan, or its device was not created with this setup, or lacks [`WgpuSetup::features`].
    ///
    /// # Safety
    /// If wgpu's queue is shared: while a thread drives the device (`Driver::pump`, and every call that waits), no other
    /// thread submits to the queue or presents a surface.
    unsafe fn adopt_wgpu(
        device: &wgpu::Device,
        queue: &wgpu::Queue,
        setup: &WgpuSetup,
    ) -> Result<Self, WgpuError>;
}

impl AdoptWgpu for Vulkan {
    unsafe fn adopt_wgpu(
        device: &wgpu::Device,
        queue: &wgpu::Queue,
        setup: &WgpuSetup,
    ) -> Result<Self, WgpuError> {
        // SAFETY: the guards only read handles.
        let (raw, raw_queue) = unsafe { (device.as_hal::<Api>(), queue.as_hal::<Api>()) };
        let (raw, raw_queue) = raw.zip(raw_queue).ok_or(WgpuError::NotVulkan)?;
        let enabled = setup.state().enabled.clone();
        let enabled = enabled
            .filter(|enabled| enabled.physical == raw.raw_physical_device())
            .ok_or(WgpuError::NotSetUp)?;
        let has = device.features();
        if !has.contains(wgpu::Features::SHADER_INT64) {
            return Err(WgpuError::Features(wgpu::Features::SHADER_INT64));
        }
        let mut features = AdoptedFeatures::default();
        features.f64 = has.contains(wgpu::Features::SHADER_F64);
        features.i16 = has.contains(wgpu::Features::SHADER_I16);
        // With this feature wgpu enables the type and its storage.
        features.f16 = has.contains(wgpu::Features::SHADER_F16);
        features.storage_16 = features.f16;
        features.buffer_i64_atomics = has.contains(wgpu::Features::SHADER_INT64_ATOMIC_ALL_OPS);
        features.push_descriptor = enabled.push_descriptor;
        features.calibrated_timestamps = enabled.calibrated_timestamps;
        let functions = raw.raw_device().clone();
        let own = enabled.queues.iter().map(|(family, index)| AdoptedQueue {
            family: *family,
            // SAFETY: the device was created with this queue.
            raw: unsafe { functions.get_device_queue(*family, *index) },
        });
        let shared = AdoptedQueue {
            family: raw.queue_family_index(),
            raw: raw_queue.as_raw(),
        };
        let is_shared = enabled.queues.is_empty();
        let queues: Vec<_> = own.chain(is_shared.then_some(shared)).collect();
        let instance = raw.shared_instance().raw_instance().clone();
        let physical = raw.raw_physical_device();
        let adopted = AdoptedDevice::new(instance, physical, functions.clone(), queues)
            .features(features)
            .families([shared.family])
            .owner((device.clone(), queue.clone()));
        let adopted = match is_shared {
            true => adopted.share_queues(),
            false => adopted,
        };
        // SAFETY: the owner keeps the device and its instance. The setup has enabled what is required, if the device
        // has it, which opening checks. Nothing else uses queues of our own; for a shared one the caller vouches.
        Ok(unsafe { Vulkan::adopt(adopted) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(flags: vk::QueueFlags, count: u32) -> vk::QueueFamilyProperties {
        vk::QueueFamilyProperties::default()
            .queue_flags(flags)
            .queue_count(count)
    }

    fn wgpu_info() -> vk::DeviceQueueCreateInfo<'static> {
        vk::DeviceQueueCreateInfo::default()
            .queue_family_index(0)
            .queue_priorities(&[1.0])
    }

    #[test]
    fn own_queues_are_of_a_dedicated_family_or_further_ones_of_wgpus() {
        use vk::QueueFlags as Q;
        let all = Q::GRAPHICS | Q::COMPUTE | Q::TRANSFER;
        let (graphics, copies, compute) = (
            family(all, 16),
            family(Q::TRANSFER, 2),
            family(Q::COMPUTE, 8),
        );
        let added = |families: &[_]| {
            let mut infos = vec![wgpu_info()];
            let queues = add_queues(&mut infos, families);
            let counts: Vec<_> = infos
                .iter()
                .map(|info| (info.queue_family_index, info.queue_count))
                .collect();
            (queues, counts)
        };
        let dedicated = added(&[graphics, copies, compute]);
        assert_eq!(dedicated.0, [(2, 0), (2, 1), (2, 2), (2, 3)]);
        assert_eq!(dedicated.1, [(0, 1), (2, 4)]);
        let further = added(&[graphics, copies]);
        assert_eq!(further.0, [(0, 1), (0, 2), (0, 3), (0, 4)]);
        assert_eq!(further.1, [(0, 5)]);
        assert_eq!(added(&[family(all, 1), copies]), (vec![], vec![(0, 1)]));
        assert_eq!(added(&[family(all, 2)]), (vec![(0, 1)], vec![(0, 2)]));
    }
}

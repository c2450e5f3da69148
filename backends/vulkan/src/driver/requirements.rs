//! The GPUs of an instance: their limits, their queue families, and what this backend needs of them.

use std::ffi::CStr;

use ash::{ext, khr, nv, vk};
use millstream_ir::ssa::SUBGROUP_MAX;
use millstream_protocol::OpenError;

use super::calibration::calibration_among;
use super::instance::{change, loader};
use super::{Code, Instance, VERSION_MIN, has, unavailable};
use crate::adopted::AdoptedDevice;

/// A family of queues that support compute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QueueFamily {
    pub(crate) index: u32,
    /// The number of queues that the driver offers.
    pub(crate) count: u32,
    /// The number of valid bits of a timestamp; 0 if there are no timestamps.
    pub(crate) timestamp_bits: u32,
}

/// A physical device.
#[derive(Default)]
pub(crate) struct Gpu {
    pub(crate) raw: vk::PhysicalDevice,
    /// The index in the driver's order.
    pub(crate) ordinal: usize,
    pub(crate) name: String,
    pub(crate) driver: String,
    /// Identifies the device and the driver, for caches.
    pub(crate) cache_key: [u8; 32],
    pub(crate) kind: vk::PhysicalDeviceType,
    pub(crate) version: u32,
    pub(crate) limits: vk::PhysicalDeviceLimits,
    /// Bytes of the largest allocation.
    pub(crate) max_allocation_bytes: u64,
    pub(crate) memory: vk::PhysicalDeviceMemoryProperties,
    /// The families that support compute, the dedicated ones first.
    pub(crate) families: Vec<QueueFamily>,
    pub(crate) features: Features,
    pub(crate) multiprocessors: Option<u32>,
    /// Names of missing features and extensions; empty if the device can be used.
    pub(crate) lacks: Vec<&'static str>,
}

/// The optional features of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Features {
    /// What kernels of the IR may use.
    pub(crate) kernels: millstream_spirv::Features,
    /// 16-bit floats in arithmetic, for kernels of users.
    pub(crate) f16: bool,
    pub(crate) push_descriptors: bool,
    /// `synchronization2` is an extension of this device, not a part of its version.
    pub(crate) synchronization_extension: bool,
    /// The device can describe a fault after a loss.
    pub(crate) fault_info: bool,
    /// The name of the extension that reads the clocks of the device and the host at the same moment.
    pub(crate) calibrated_timestamps: Option<&'static CStr>,
}

impl Gpu {
    /// Lists the GPUs of an instance, in the driver's order.
    pub(crate) fn all(instance: &Instance) -> Result<Vec<Self>, OpenError> {
        let _turn = change();
        // SAFETY: the instance is alive.
        let devices = unsafe { instance.raw.enumerate_physical_devices() }
            .map_err(Code::of("vkEnumeratePhysicalDevices"))?;
        if devices.is_empty() {
            return Err(unavailable(
                "the Vulkan loader sees no GPU; install a driver, on Debian `mesa-vulkan-drivers`",
            ));
        }
        let devices = devices.into_iter().enumerate();
        devices
            .map(|(ordinal, raw)| Self::new(instance, ordinal, raw))
            .collect()
    }

    /// Returns the physical device of an application.
    pub(crate) fn adopt(instance: &Instance, adopted: &AdoptedDevice) -> Result<Self, OpenError> {
        let mut gpu = Self::new(instance, 0, adopted.physical)?;
        let (has, found) = (adopted.features, gpu.features.kernels);
        gpu.features = Features {
            kernels: millstream_spirv::Features {
                f64: has.f64,
                i8: has.i8,
                i16: has.i16,
                storage_8: has.storage_8,
                storage_16: has.storage_16,
                buffer_i64_atomics: has.buffer_i64_atomics,
                shared_i64_atomics: has.shared_i64_atomics,
                preserve_f32: found.preserve_f32,
                preserve_f64: found.preserve_f64,
                subnormals_f32: found.subnormals_f32,
                subnormals_f64: found.subnormals_f64,
                ..millstream_spirv::Features::default()
            },
            f16: has.f16,
            push_descriptors: has.push_descriptor,
            synchronization_extension: false,
            fault_info: false,
            // Or that of EXT: which of them does not matter, since the device has been created.
            calibrated_timestamps: has
                .calibrated_timestamps
                .then_some(khr::calibrated_timestamps::NAME),
        };
        Ok(gpu)
    }

    fn new(
        instance: &Instance,
        ordinal: usize,
        raw: vk::PhysicalDevice,
    ) -> Result<Self, OpenError> {
        let vulkan = &instance.raw;
        // SAFETY: the physical device belongs to the instance, as in the calls below.
        let basic = unsafe { vulkan.get_physical_device_properties(raw) };
        let name = text(basic.device_name_as_c_str());
        let version = basic.api_version.min(instance.version);
        // SAFETY: as above.
        let families = unsafe { vulkan.get_physical_device_queue_family_properties(raw) };
        // SAFETY: as above.
        let memory = unsafe { vulkan.get_physical_device_memory_properties(raw) };
        let mut gpu = Self {
            raw,
            ordinal,
            name,
            kind: basic.device_type,
            version,
            limits: basic.limits,
            memory,
            families: compute_families(&families),
            ..Self::default()
        };
        if basic.api_version < VERSION_MIN {
            gpu.lacks.push("Vulkan 1.2");
            return Ok(gpu);
        }
        // SAFETY: as above.
        let extensions = unsafe { vulkan.enumerate_device_extension_properties(raw) }
            .map_err(Code::of("vkEnumerateDeviceExtensionProperties"))?;
        gpu.query_properties(vulkan, &extensions);
        gpu.query_features(instance, &extensions);
        Ok(gpu)
    }

    fn query_properties(&mut self, vulkan: &ash::Instance, extensions: &[vk::ExtensionProperties]) {
        let mut of_1_1 = vk::PhysicalDeviceVulkan11Properties::default();
        let mut of_1_2 = vk::PhysicalDeviceVulkan12Properties::default();
        let mut sizes = vk::PhysicalDeviceSubgroupSizeControlProperties::default();
        let mut units = vk::PhysicalDeviceShaderSMBuiltinsPropertiesNV::default();
        let mut all = vk::PhysicalDeviceProperties2::default()
            .push_next(&mut of_1_1)
            .push_next(&mut of_1_2);
        if self.version >= vk::API_VERSION_1_3 {
            all = all.push_next(&mut sizes);
        }
        let has_units = has(extensions, nv::shader_sm_builtins::NAME);
        if has_units {
            all = all.push_next(&mut units);
        }
        // SAFETY: the physical device belongs to the instance; the chain has structs that it supports.
        unsafe { vulkan.get_physical_device_properties2(self.raw, &mut all) };
        let (cache_uuid, basic) = (all.properties.pipeline_cache_uuid, all.properties);
        let driver = text(of_1_2.driver_name_as_c_str());
        let info = text(of_1_2.driver_info_as_c_str());
        self.driver = format!("{driver} {info}").trim().to_owned();
        self.cache_key[..16].copy_from_slice(&cache_uuid);
        self.cache_key[16..20].copy_from_slice(&basic.vendor_id.to_le_bytes());
        self.cache_key[20..24].copy_from_slice(&basic.device_id.to_le_bytes());
        self.cache_key[24..28].copy_from_slice(&basic.driver_version.to_le_bytes());
        self.max_allocation_bytes = of_1_1.max_memory_allocation_size;
        self.multiprocessors = has_units.then_some(units.shader_sm_count);
        // Modules choose for each width on its own.
        let by_width =
            of_1_2.denorm_behavior_independence == vk::ShaderFloatControlsIndependence::ALL;
        let kernels = &mut self.features.kernels;
        kernels.subgroup_width = subgroup_width(&of_1_1, &sizes);
        kernels.subgroups_max = sizes.max_compute_workgroup_subgroups;
        kernels.preserve_f32 = of_1_2.shader_signed_zero_inf_nan_preserve_float32 == vk::TRUE;
        kernels.preserve_f64 = of_1_2.shader_signed_zero_inf_nan_preserve_float64 == vk::TRUE;
        kernels.subnormals_f32 = by_width && of_1_2.shader_denorm_preserve_float32 == vk::TRUE;
        kernels.subnormals_f64 = by_width && of_1_2.shader_denorm_preserve_float64 == vk::TRUE;
    }

    fn query_features(&mut self, instance: &Instance, extensions: &[vk::ExtensionProperties]) {
        let vulkan = &instance.raw;
        // The loader of an application may be another one.
        let entry = loader().ok().filter(|_| !instance.is_adopted);
        let calibrated_timestamps =
            entry.and_then(|entry| calibration_among(extensions, entry, vulkan, self.raw));
        let mut of_1_1 = vk::PhysicalDeviceVulkan11Features::default();
        let mut of_1_2 = vk::PhysicalDeviceVulkan12Features::default();
        let mut subgroups = vk::PhysicalDeviceSubgroupSizeControlFeatures::default();
        let mut synchronization = vk::PhysicalDeviceSynchronization2Features::default();
        let in_version = self.version >= vk::API_VERSION_1_3;
        let as_extension = !in_version && has(extensions, khr::synchronization2::NAME);
        let mut all = vk::PhysicalDeviceFeatures2::default()
            .push_next(&mut of_1_1)
            .push_next(&mut of_1_2);
        if in_version || as_extension {
            all = all.push_next(&mut synchronization);
        }
        if in_version {
            all = all.push_next(&mut subgroups);
        }
        let mut atomics = vk::PhysicalDeviceShaderAtomicFloatFeaturesEXT::default();
        if has(extensions, ext::shader_atomic_float::NAME) {
            all = all.push_next(&mut atomics);
        }
        let mut faults = vk::PhysicalDeviceFaultFeaturesEXT::default();
        if has(extensions, ext::device_fault::NAME) {
            all = all.push_next(&mut faults);
        }
        // SAFETY: the physical device belongs to the instance; the chain has structs that it supports.
        unsafe { vulkan.get_physical_device_features2(self.raw, &mut all) };
        let basic = all.features;
        let needs = [
            (of_1_2.timeline_semaphore, "timelineSemaphore"),
            (of_1_2.buffer_device_address, "bufferDeviceAddress"),
            (of_1_2.scalar_block_layout, "scalarBlockLayout"),
            (basic.shader_int64, "shaderInt64"),
            (synchronization.synchronization2, "synchronization2"),
        ];
        let missing = needs.into_iter().filter(|(has, _)| *has == vk::FALSE);
        self.lacks.extend(missing.map(|(_, name)| name));
        if self.families.is_empty() {
            self.lacks.push("a queue family that supports compute");
        }
        let on = |value: vk::Bool32| value == vk::TRUE;
        let controls = on(subgroups.subgroup_size_control) && on(subgroups.compute_full_subgroups);
        let subgroup_width = match controls {
            true => self.features.kernels.subgroup_width,
            false => 0,
        };
        self.features = Features {
            kernels: millstream_spirv::Features {
                f64: on(basic.shader_float64),
                i8: on(of_1_2.shader_int8),
                i16: on(basic.shader_int16),
                storage_8: on(of_1_2.storage_buffer8_bit_access),
                storage_16: on(of_1_1.storage_buffer16_bit_access),
                buffer_i64_atomics: on(of_1_2.shader_buffer_int64_atomics),
                shared_i64_atomics: on(of_1_2.shader_shared_int64_atomics),
                buffer_f32_atomic_add: on(atomics.shader_buffer_float32_atomic_add),
                shared_f32_atomic_add: on(atomics.shader_shared_float32_atomic_add),
                buffer_f64_atomic_add: on(atomics.shader_buffer_float64_atomic_add),
                shared_f64_atomic_add: on(atomics.shader_shared_float64_atomic_add),
                subgroup_width,
                subgroup_extended_types: on(of_1_2.shader_subgroup_extended_types),
                ..self.features.kernels
            },
            f16: on(of_1_2.shader_float16),
            push_descriptors: has(extensions, khr::push_descriptor::NAME),
            synchronization_extension: as_extension,
            fault_info: on(faults.device_fault),
            calibrated_timestamps,
        };
    }

    /// Returns an error if this backend cannot use the device.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        if self.lacks.is_empty() {
            return Ok(());
        }
        Err(unavailable(format!(
            "the device `{}` lacks {}; update its driver, or choose another device",
            self.name,
            self.lacks.join(", ")
        )))
    }

    /// Returns the total bytes of memory that is local to the device.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let heaps = self.memory.memory_heaps_as_slice().iter();
        let local = heaps.filter(|heap| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
        local.map(|heap| heap.size).sum()
    }

    /// Returns `true` if the host can access all memory that is local to the device, as on integrated GPUs and on
    /// drivers that run on the processor.
    pub(crate) fn has_unified_memory(&self) -> bool {
        let is = |kind| self.kind == kind;
        is(vk::PhysicalDeviceType::CPU) || is(vk::PhysicalDeviceType::INTEGRATED_GPU)
    }
}

/// Returns the greatest size of subgroups that a pipeline may require, with shuffles; 0 if there is none.
fn subgroup_width(
    of_1_1: &vk::PhysicalDeviceVulkan11Properties<'_>,
    sizes: &vk::PhysicalDeviceSubgroupSizeControlProperties<'_>,
) -> u32 {
    let width = sizes.max_subgroup_size.min(SUBGROUP_MAX);
    let (compute, operations) = (
        vk::ShaderStageFlags::COMPUTE,
        of_1_1.subgroup_supported_operations,
    );
    let has = sizes.required_subgroup_size_stages.contains(compute)
        && of_1_1.subgroup_supported_stages.contains(compute)
        && operations.contains(vk::SubgroupFeatureFlags::SHUFFLE)
        && width >= sizes.min_subgroup_size;
    if has { width } else { 0 }
}

/// Returns the families that support compute, the dedicated ones first.
fn compute_families(all: &[vk::QueueFamilyProperties]) -> Vec<QueueFamily> {
    let all = (0..).zip(all);
    let compute = all.filter(|(_, family)| family.queue_flags.contains(vk::QueueFlags::COMPUTE));
    let mut compute: Vec<_> = compute.collect();
    // Queues that only support compute and copies run beside those of graphics.
    compute.sort_by_key(|(_, family)| family.queue_flags.contains(vk::QueueFlags::GRAPHICS));
    let families = compute.into_iter().map(|(index, family)| QueueFamily {
        index,
        count: family.queue_count,
        timestamp_bits: family.timestamp_valid_bits,
    });
    families.collect()
}

/// Converts a text of the driver.
fn text<E>(text: Result<&CStr, E>) -> String {
    text.map_or_else(
        |_| String::new(),
        |text| text.to_string_lossy().into_owned(),
    )
}

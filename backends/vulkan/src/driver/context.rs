//! A logical device with the functions of its extensions.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_void};
use std::sync::Arc;

use ash::{ext, khr, vk};
use millstream_protocol::OpenError;
use millstream_sync::facade::{Mutex, lock};

use super::calibration::{Calibration, Calibrator};
use super::instance::change;
use super::{Code, Gpu, Instance, Pipeline};
use crate::adopted::Owner;

/// A logical device. Destroyed when the last owner of one of its objects is dropped.
pub(crate) struct Context {
    pub(crate) device: ash::Device,
    pub(crate) gpu: Gpu,
    /// The families of the opened queues.
    pub(crate) families: Vec<u32>,
    pub(crate) push_descriptor: Option<khr::push_descriptor::Device>,
    fault_info: Option<ext::device_fault::Device>,
    calibrator: Option<Calibrator>,
    /// The pipelines of kernels.
    pipelines: Mutex<BTreeMap<vk::Pipeline, Pipeline>>,
    /// Destroyed after the device.
    _instance: Instance,
    /// What an application keeps alive with its device; `None` for a device of our own. Dropped last.
    owner: Option<Owner>,
}

/// Returns a device whose functions of `synchronization2` are those of the extension, if the device has enabled it. Before
/// Vulkan 1.3 there are no others.
fn with_synchronization(instance: &ash::Instance, device: &ash::Device) -> ash::Device {
    let get = |name: &CStr| {
        // SAFETY: the device is alive, and the name ends with a zero.
        unsafe { instance.get_device_proc_addr(device.handle(), name.as_ptr()) }
    };
    let functions = ash::DeviceFnV1_3::load(|name| {
        let of_extension = CString::new([name.to_bytes(), b"KHR"].concat());
        let found = of_extension.ok().and_then(|name| get(&name));
        let found = found.or_else(|| get(name));
        found.map_or(std::ptr::null(), |function| function as *const c_void)
    });
    ash::Device::from_parts_1_3(
        device.handle(),
        device.fp_v1_0().clone(),
        device.fp_v1_1().clone(),
        device.fp_v1_2().clone(),
        functions,
    )
}

impl Context {
    /// Opens a GPU. `queues` has the number of queues of each family.
    pub(crate) fn new(
        instance: Instance,
        gpu: Gpu,
        queues: &[(u32, usize)],
    ) -> Result<Arc<Self>, OpenError> {
        gpu.check()?;
        let priorities: Vec<Vec<f32>> = queues.iter().map(|(_, count)| vec![1.0; *count]).collect();
        let infos = queues.iter().zip(&priorities);
        let infos = infos.map(|((family, _), priorities)| {
            vk::DeviceQueueCreateInfo::default()
                .queue_family_index(*family)
                .queue_priorities(priorities)
        });
        let infos: Vec<_> = infos.collect();
        let has = gpu.features;
        let kernels = has.kernels;
        let basic = vk::PhysicalDeviceFeatures::default()
            .shader_int64(true)
            .shader_float64(kernels.f64)
            .shader_int16(kernels.i16);
        let mut of_1_1 = vk::PhysicalDeviceVulkan11Features::default()
            .storage_buffer16_bit_access(kernels.storage_16);
        let mut of_1_2 = vk::PhysicalDeviceVulkan12Features::default()
            .timeline_semaphore(true)
            .buffer_device_address(true)
            .scalar_block_layout(true)
            .host_query_reset(true)
            .shader_float16(has.f16)
            .shader_int8(kernels.i8)
            .storage_buffer8_bit_access(kernels.storage_8)
            .shader_subgroup_extended_types(kernels.subgroup_extended_types)
            .shader_buffer_int64_atomics(kernels.buffer_i64_atomics)
            .shader_shared_int64_atomics(kernels.shared_i64_atomics);
        let has_subgroups = kernels.subgroup_width > 0;
        let mut subgroups = vk::PhysicalDeviceSubgroupSizeControlFeatures::default()
            .subgroup_size_control(true)
            .compute_full_subgroups(true);
        let mut synchronization =
            vk::PhysicalDeviceSynchronization2Features::default().synchronization2(true);
        let mut features = vk::PhysicalDeviceFeatures2::default().features(basic);
        let mut atomic_floats = vk::PhysicalDeviceShaderAtomicFloatFeaturesEXT::default()
            .shader_buffer_float32_atomic_add(kernels.buffer_f32_atomic_add)
            .shader_shared_float32_atomic_add(kernels.shared_f32_atomic_add)
            .shader_buffer_float64_atomic_add(kernels.buffer_f64_atomic_add)
            .shader_shared_float64_atomic_add(kernels.shared_f64_atomic_add);
        let adds_floats = kernels.buffer_f32_atomic_add
            || kernels.shared_f32_atomic_add
            || kernels.buffer_f64_atomic_add
            || kernels.shared_f64_atomic_add;
        let mut faults = vk::PhysicalDeviceFaultFeaturesEXT::default().device_fault(true);
        let optional = [
            (has.synchronization_extension, khr::synchronization2::NAME),
            (has.push_descriptors, khr::push_descriptor::NAME),
            (has.fault_info, ext::device_fault::NAME),
            (adds_floats, ext::shader_atomic_float::NAME),
        ];
        let extensions = optional.into_iter().filter(|(has, _)| *has);
        let extensions = extensions
            .map(|(_, name)| name)
            .chain(has.calibrated_timestamps);
        let extensions: Vec<_> = extensions.map(CStr::as_ptr).collect();
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&infos)
            .push_next(&mut features)
            .enabled_extension_names(&extensions)
            .push_next(&mut of_1_1)
            .push_next(&mut of_1_2)
            .push_next(&mut synchronization);
        let info = match has_subgroups {
            true => info.push_next(&mut subgroups),
            false => info,
        };
        let info = match adds_floats {
            true => info.push_next(&mut atomic_floats),
            false => info,
        };
        let info = match has.fault_info {
            true => info.push_next(&mut faults),
            false => info,
        };
        let vulkan = &instance.raw;
        let _turn = change();
        // SAFETY: the physical device belongs to the instance, and everything that `info` points to lives until the
        // call returns.
        let device = unsafe { vulkan.create_device(gpu.raw, &info, None) }
            .map_err(Code::of("vkCreateDevice"))?;
        let families = queues.iter().map(|(family, _)| *family).collect();
        Ok(Self::of(instance, gpu, &device, families, None))
    }

    /// Uses the device of an application.
    ///
    /// # Safety
    /// The device is alive until the context is dropped, and has the required features.
    pub(crate) unsafe fn adopt(
        instance: Instance,
        gpu: Gpu,
        device: ash::Device,
        families: Vec<u32>,
        owner: Owner,
    ) -> Result<Arc<Self>, OpenError> {
        gpu.check()?;
        let _turn = change();
        Ok(Self::of(instance, gpu, &device, families, Some(owner)))
    }

    /// Adds the functions of extensions to a device, which the context owns if there is no other owner.
    fn of(
        instance: Instance,
        gpu: Gpu,
        device: &ash::Device,
        families: Vec<u32>,
        owner: Option<Owner>,
    ) -> Arc<Self> {
        let (vulkan, has) = (&instance.raw, gpu.features);
        let push_descriptor = || khr::push_descriptor::Device::new(vulkan, device);
        let fault_info = || ext::device_fault::Device::new(vulkan, device);
        let calibrator = has.calibrated_timestamps;
        Arc::new(Self {
            push_descriptor: has.push_descriptors.then(push_descriptor),
            fault_info: has.fault_info.then(fault_info),
            calibrator: calibrator.and_then(|_| Calibrator::new(vulkan, device)),
            pipelines: Mutex::default(),
            device: with_synchronization(vulkan, device),
            gpu,
            families,
            _instance: instance,
            owner,
        })
    }

    /// Returns `true` if the device belongs to an application.
    pub(crate) fn is_adopted(&self) -> bool {
        self.owner.is_some()
    }

    /// Reads the clocks of the device and the host at the same moment. `None` if the device cannot.
    pub(crate) fn calibrate(&self) -> Option<Result<Calibration, Code>> {
        self.calibrator.as_ref().map(Calibrator::closest)
    }

    /// Returns what the driver says about the fault that has lost the device, if it says anything.
    pub(crate) fn fault(&self) -> Option<String> {
        let functions = self.fault_info.as_ref()?;
        // Counts of 0 ask for the description alone.
        let mut counts = vk::DeviceFaultCountsEXT::default();
        let mut info = vk::DeviceFaultInfoEXT::default();
        let device = self.device.handle();
        // SAFETY: the device is alive and lost, and the structs are valid.
        let answer =
            unsafe { (functions.fp().get_device_fault_info_ext)(device, &mut counts, &mut info) };
        match answer {
            vk::Result::SUCCESS | vk::Result::INCOMPLETE => {
                let text = info.description_as_c_str().ok()?.to_string_lossy();
                Some(text.into_owned()).filter(|text| !text.is_empty())
            }
            _ => None,
        }
    }

    /// Keeps the pipeline of a kernel until [`Context::destroy_pipeline`], or until the context is dropped.
    pub(crate) fn keep_pipeline(&self, pipeline: Pipeline) {
        lock(&self.pipelines).insert(pipeline.raw, pipeline);
    }

    /// Destroys the pipeline of a kernel, which no task uses any more.
    pub(crate) fn destroy_pipeline(&self, pipeline: Pipeline) {
        let kept = lock(&self.pipelines).remove(&pipeline.raw);
        if let Some(pipeline) = kept {
            pipeline.destroy(&self.device);
        }
    }

    /// Leaks the pipelines of all kernels, because tasks may use them until the process ends.
    pub(crate) fn leak_pipelines(&self) {
        lock(&self.pipelines).clear();
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let kept = std::mem::take(&mut *lock(&self.pipelines));
        for pipeline in kept.into_values() {
            pipeline.destroy(&self.device);
        }
        if self.is_adopted() {
            return;
        }
        let _turn = change();
        // SAFETY: all objects of the device hold the context, so they are destroyed; the device is idle or lost.
        unsafe { self.device.destroy_device(None) };
    }
}

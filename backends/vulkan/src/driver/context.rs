//! A logical device with its allocator and the functions of its extensions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ash::{ext, khr, vk};
use gpu_allocator::vulkan::{Allocator, AllocatorCreateDesc};
use millstream_protocol::error::OpenError;

use super::instance::{change, unavailable};
use super::{Code, Gpu, Instance, Pipeline, refused};

/// Bytes of memory that small buffers share.
const SHARED_BYTES: u64 = 4 << 20;

/// A logical device. Destroyed when the last owner of one of its objects is dropped.
pub(crate) struct Context {
    pub(crate) device: ash::Device,
    pub(crate) gpu: Gpu,
    /// The families of the opened queues.
    pub(crate) families: Vec<u32>,
    synchronization: Option<khr::synchronization2::Device>,
    pub(crate) push_descriptor: Option<khr::push_descriptor::Device>,
    /// `None` only while the context is dropped.
    allocator: Mutex<Option<Allocator>>,
    /// Pipelines of dropped kernels, which tasks in flight may still use.
    retired: Mutex<Vec<Pipeline>>,
    /// Destroyed after the device.
    _instance: Instance,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under one of these locks leaves the data consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        let basic = vk::PhysicalDeviceFeatures::default()
            .shader_int64(true)
            .shader_float64(has.f64)
            .shader_int16(has.i16);
        let mut of_1_1 = vk::PhysicalDeviceVulkan11Features::default()
            .storage_buffer16_bit_access(has.storage_16);
        let mut of_1_2 = vk::PhysicalDeviceVulkan12Features::default()
            .timeline_semaphore(true)
            .buffer_device_address(true)
            .scalar_block_layout(true)
            .host_query_reset(true)
            .shader_float16(has.f16)
            .shader_int8(has.i8)
            .storage_buffer8_bit_access(has.storage_8)
            .shader_buffer_int64_atomics(has.i64_atomics)
            .shader_shared_int64_atomics(has.shared_i64_atomics);
        let mut synchronization =
            vk::PhysicalDeviceSynchronization2Features::default().synchronization2(true);
        let mut extensions = Vec::new();
        if has.synchronization_extension {
            extensions.push(khr::synchronization2::NAME.as_ptr());
        }
        if has.push_descriptors {
            extensions.push(khr::push_descriptor::NAME.as_ptr());
        }
        let mut features = vk::PhysicalDeviceFeatures2::default().features(basic);
        let atomics = has.atomic_floats;
        let mut atomic_floats = vk::PhysicalDeviceShaderAtomicFloatFeaturesEXT::default()
            .shader_buffer_float32_atomic_add(atomics.buffer_f32)
            .shader_shared_float32_atomic_add(atomics.shared_f32)
            .shader_buffer_float64_atomic_add(atomics.buffer_f64)
            .shader_shared_float64_atomic_add(atomics.shared_f64);
        if atomics.any() {
            extensions.push(ext::shader_atomic_float::NAME.as_ptr());
        }
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&infos)
            .push_next(&mut features)
            .enabled_extension_names(&extensions)
            .push_next(&mut of_1_1)
            .push_next(&mut of_1_2)
            .push_next(&mut synchronization);
        let info = match atomics.any() {
            true => info.push_next(&mut atomic_floats),
            false => info,
        };
        let vulkan = &instance.raw;
        let _turn = change();
        // SAFETY: the physical device belongs to the instance, and everything that `info` points to lives until the
        // call returns.
        let device = unsafe { vulkan.create_device(gpu.raw, &info, None) }
            .map_err(Code::of("vkCreateDevice"))
            .map_err(refused)?;
        let allocator = Allocator::new(&AllocatorCreateDesc {
            instance: vulkan.clone(),
            device: device.clone(),
            physical_device: gpu.raw,
            debug_settings: gpu_allocator::AllocatorDebugSettings::default(),
            buffer_device_address: true,
            allocation_sizes: gpu_allocator::AllocationSizes::new(SHARED_BYTES, SHARED_BYTES),
        });
        let allocator = match allocator {
            Ok(allocator) => allocator,
            Err(why) => {
                // SAFETY: just created, and nothing else uses it.
                unsafe { device.destroy_device(None) };
                return Err(unavailable(format!("its memory cannot be managed: {why}")));
            }
        };
        Ok(Arc::new(Self {
            synchronization: has
                .synchronization_extension
                .then(|| khr::synchronization2::Device::new(vulkan, &device)),
            push_descriptor: has
                .push_descriptors
                .then(|| khr::push_descriptor::Device::new(vulkan, &device)),
            allocator: Mutex::new(Some(allocator)),
            retired: Mutex::default(),
            device,
            gpu,
            families: queues.iter().map(|(family, _)| *family).collect(),
            _instance: instance,
        }))
    }

    /// Calls `body` with the allocator.
    pub(crate) fn with_allocator<T>(&self, body: impl FnOnce(&mut Allocator) -> T) -> Option<T> {
        lock(&self.allocator).as_mut().map(body)
    }

    /// Submits to a queue.
    ///
    /// # Safety
    /// No other thread uses the queue. Everything that the infos name is alive until the submission has completed.
    pub(crate) unsafe fn submit(
        &self,
        queue: vk::Queue,
        infos: &[vk::SubmitInfo2<'_>],
    ) -> Result<(), Code> {
        let fence = vk::Fence::null();
        // SAFETY: as the caller guarantees.
        let answer = unsafe {
            match &self.synchronization {
                Some(functions) => functions.queue_submit2(queue, infos, fence),
                None => self.device.queue_submit2(queue, infos, fence),
            }
        };
        answer.map_err(Code::of("vkQueueSubmit2"))
    }

    /// Records a barrier.
    ///
    /// # Safety
    /// The command buffer is being recorded, by this thread alone.
    pub(crate) unsafe fn barrier(
        &self,
        commands: vk::CommandBuffer,
        info: &vk::DependencyInfo<'_>,
    ) {
        // SAFETY: as the caller guarantees.
        unsafe {
            match &self.synchronization {
                Some(functions) => functions.cmd_pipeline_barrier2(commands, info),
                None => self.device.cmd_pipeline_barrier2(commands, info),
            }
        }
    }

    /// Records a timestamp, which is written once all earlier commands have completed.
    ///
    /// # Safety
    /// The command buffer is being recorded, by this thread alone, and the query was reset.
    pub(crate) unsafe fn timestamp(
        &self,
        commands: vk::CommandBuffer,
        pool: vk::QueryPool,
        query: u32,
    ) {
        let stage = vk::PipelineStageFlags2::BOTTOM_OF_PIPE;
        // SAFETY: as the caller guarantees.
        unsafe {
            match &self.synchronization {
                Some(functions) => functions.cmd_write_timestamp2(commands, stage, pool, query),
                None => self
                    .device
                    .cmd_write_timestamp2(commands, stage, pool, query),
            }
        }
    }

    /// Keeps the pipeline of a dropped kernel until [`Context::take_retired`].
    pub(crate) fn retire(&self, pipeline: Pipeline) {
        lock(&self.retired).push(pipeline);
    }

    /// Moves the pipelines of dropped kernels to `to`. Tasks that were issued before may still use them.
    pub(crate) fn take_retired(&self, to: &mut Vec<Pipeline>) {
        to.append(&mut lock(&self.retired));
    }

    /// Waits until all queues are idle.
    ///
    /// # Safety
    /// No other thread uses a queue of the device.
    pub(crate) unsafe fn wait_idle(&self) -> Result<(), Code> {
        // SAFETY: as the caller guarantees.
        unsafe { self.device.device_wait_idle() }.map_err(Code::of("vkDeviceWaitIdle"))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let retired = self
            .retired
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for pipeline in retired.drain(..) {
            pipeline.destroy(&self.device);
        }
        *self
            .allocator
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner) = None;
        let _turn = change();
        // SAFETY: all objects of the device hold the context, so they are destroyed; the device is idle or lost.
        unsafe { self.device.destroy_device(None) };
    }
}

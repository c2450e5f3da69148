//! The properties of a GPU.

use std::collections::BTreeSet;
use std::thread::available_parallelism;

use ash::vk;
use millstream_protocol::{DeviceProperties, Feature};

use crate::driver::{ALIGNMENT, Gpu};

/// Most tasks in flight on a queue.
pub(crate) const QUEUE_DEPTH_MAX: usize = 256;
/// Most bindings of one launch, so that its parameters need no allocation.
pub(crate) const BINDINGS_MAX: usize = 32;
/// The number of multiprocessors of a GPU whose driver does not report it.
const MULTIPROCESSORS_ASSUMED: u32 = 16;
/// The most dispatches along one axis that a launch is split into.
const SPLITS_MAX: u32 = 64;

pub(crate) fn properties(gpu: &Gpu, queues: usize) -> DeviceProperties {
    let mut features = BTreeSet::from([Feature::I64, Feature::DynamicCubeCount]);
    let kernels = gpu.features.kernels;
    if kernels.f64 {
        features.insert(Feature::F64);
    }
    if gpu.features.f16 && kernels.storage_16 {
        features.insert(Feature::F16);
    }
    if kernels.i16 && kernels.storage_16 {
        features.insert(Feature::Bf16);
    }
    let compute_units = match gpu.kind {
        vk::PhysicalDeviceType::CPU => available_parallelism().map_or(1, usize::from),
        _ => gpu.multiprocessors.unwrap_or(MULTIPROCESSORS_ASSUMED) as usize,
    };
    let cubes = gpu.limits.max_compute_work_group_count;
    DeviceProperties {
        backend: "vulkan",
        name: gpu.name.clone(),
        queues,
        queue_priorities: Vec::new(),
        compute_units,
        alignment: ALIGNMENT.max(gpu.limits.min_storage_buffer_offset_alignment),
        pitch_alignment: gpu.limits.optimal_buffer_copy_row_pitch_alignment.max(1),
        memory_bytes: Some(gpu.memory_bytes()),
        max_allocation_bytes: gpu.max_allocation_bytes,
        max_cube_count: cubes.map(|most| most.saturating_mul(SPLITS_MAX).min(i32::MAX as u32)),
        max_bindings: BINDINGS_MAX,
        max_queue_depth: QUEUE_DEPTH_MAX,
        features,
    }
}

//! The properties of a GPU.

use std::collections::BTreeSet;

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use millstream_protocol::{DeviceProperties, Feature, OpenError, Priority};

use crate::driver::{Gpu, graph_api};

/// The least alignment of the driver's allocations, in bytes.
const ALIGNMENT: u64 = 256;
/// The operations that may be pending on a stream: with about 1,000 the driver blocks the thread that submits (I12).
const PENDING_MAX: usize = 1_000;
/// Most tasks in flight on a queue, however few operations each is.
const QUEUE_DEPTH_MAX: usize = 512;
/// Most bindings of one launch, so that its parameters need no allocation.
const BINDINGS_MAX: usize = 32;

pub(crate) fn properties(
    gpu: &Gpu,
    queues: usize,
    queue_priorities: Vec<Priority>,
) -> Result<DeviceProperties, OpenError> {
    let positive = |attribute| Ok::<_, OpenError>(gpu.attribute(attribute)?.max(0) as u32);
    let mut features = BTreeSet::from([Feature::F64, Feature::F16, Feature::Bf16, Feature::I64]);
    if positive(Attribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH)? > 0 {
        features.insert(Feature::Clusters);
    }
    if graph_api().is_some() {
        features.insert(Feature::ConcurrentReplay);
    }
    if positive(Attribute::CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED)? > 0
        && gpu.api.encode_tiled.is_some()
        && gpu.api.encode_im2col.is_some()
    {
        features.insert(Feature::TensorMaps);
    }
    Ok(DeviceProperties {
        backend: "cuda",
        name: gpu.info.name.clone(),
        queues,
        queue_priorities,
        compute_units: positive(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize,
        alignment: ALIGNMENT,
        pitch_alignment: u64::from(positive(
            Attribute::CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT,
        )?)
        .max(1),
        memory_bytes: Some(gpu.info.memory_bytes),
        max_allocation_bytes: gpu.info.memory_bytes,
        max_cube_count: [
            positive(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
            positive(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
            positive(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
        ],
        max_bindings: BINDINGS_MAX,
        max_queue_depth: queue_depth(queues),
        features,
    })
}

/// Returns the most tasks that a queue may have in flight without the driver blocking. A task takes at most `queues + 3`
/// operations: a wait for each other queue, itself, two events for its times, and the event that ends its batch.
fn queue_depth(queues: usize) -> usize {
    (PENDING_MAX / (queues + 3)).clamp(1, QUEUE_DEPTH_MAX)
}

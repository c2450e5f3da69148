//! What a device can do, as plain data.

use std::collections::BTreeSet;
use std::fmt;

use crate::stream::Priority;

/// An optional ability that kernels may require and devices may have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Feature {
    /// Kernels written as Rust closures.
    NativeKernels,
    /// Cube counts read on the device when the launch starts.
    DynamicCubeCount,
    /// 64-bit floats.
    F64,
    /// 16-bit floats (IEEE half).
    F16,
    /// 16-bit floats (bfloat16).
    Bf16,
    /// 64-bit integers.
    I64,
    /// Tensor maps (the bulk tensor copy engine).
    TensorMaps,
    /// Clusters: cubes that run together, within reach of each other's shared memory.
    Clusters,
    /// A batch can be captured and replayed by the driver.
    Capture,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Feature::NativeKernels => "native kernels",
            Feature::DynamicCubeCount => "dynamic cube count",
            Feature::F64 => "f64",
            Feature::F16 => "f16",
            Feature::Bf16 => "bf16",
            Feature::I64 => "i64",
            Feature::TensorMaps => "tensor maps",
            Feature::Clusters => "clusters",
            Feature::Capture => "capture",
        })
    }
}

/// What a device is and how much of everything it has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceProperties {
    /// The kind of backend: `cpu`, `sim`, `cuda`.
    pub backend: &'static str,
    /// The device's own name.
    pub name: String,
    /// Physical queues, fixed at opening.
    pub queues: usize,
    /// The priority of the streams that each queue serves, where the device itself runs some queues before others. None,
    /// empty, where it does not: then streams of any priority sit on any queue.
    pub queue_priorities: Vec<Priority>,
    /// Threads or multiprocessors that run the cubes of one launch.
    pub compute_units: usize,
    /// Every slice starts at a multiple of this, in bytes.
    pub alignment: u64,
    /// Rows of pitched tensors start at a multiple of this, in bytes.
    pub pitch_alignment: u64,
    /// Memory that the device may give out, in bytes, where it is known.
    pub memory_bytes: Option<u64>,
    /// Largest single allocation, in bytes.
    pub max_allocation_bytes: u64,
    /// Most cubes in each dimension.
    pub max_cube_count: [u32; 3],
    /// Most bindings of one launch.
    pub max_bindings: usize,
    /// Tasks that one queue takes before the driver itself would block; ours stays below.
    pub max_queue_depth: usize,
    /// Optional abilities.
    pub features: BTreeSet<Feature>,
}

impl DeviceProperties {
    /// Does the device have `feature`?
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }
}

//! Abilities that devices may have and kernels may require.

use std::fmt;

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

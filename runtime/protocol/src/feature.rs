//! Optional features of devices, which kernels may require.

use std::fmt;

/// An optional feature of a device, which kernels may require.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Feature {
    /// Kernels written as Rust closures.
    NativeKernels,
    /// Cube counts that the device reads when a launch starts.
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
    /// Clusters: cubes that run together and can access each other's shared memory.
    Clusters,
    /// Kernels may print.
    Printing,
    /// The driver can capture and replay a batch.
    ConcurrentReplay,
}

impl Feature {
    /// Returns what to do if a device lacks it.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            Feature::Printing => {
                "open the CPU or the simulator, `Cpu::default()` or `Sim::seed(7)`, or remove `print!`"
            }
            _ => "check `DeviceProperties::has`, and use another kernel without it",
        }
    }
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
            Feature::Printing => "printing",
            Feature::ConcurrentReplay => "capture",
        })
    }
}

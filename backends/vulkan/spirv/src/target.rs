//! What a device offers to modules, and what a module needs of it.

use millstream_ir::DType;
use millstream_ir::ssa::Memory;

/// How a module reaches its buffers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Buffers {
    /// By device addresses, which the parameter block holds.
    #[default]
    Addresses,
    /// By storage buffers of descriptor set 0: binding `i` is parameter `i`.
    Descriptors,
}

/// The device that a module is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// How the module reaches its buffers.
    pub buffers: Buffers,
    /// The most bytes of push constants (`maxPushConstantsSize`). A greater parameter block is in a buffer.
    pub parameter_bytes_max: u32,
    /// The most bytes of shared memory of a cube (`maxComputeSharedMemorySize`).
    pub shared_bytes_max: u32,
    /// The most threads of a cube (`maxComputeWorkGroupInvocations`).
    pub threads_max: u32,
    /// The optional features that the module may use.
    pub features: Features,
}

impl Default for Target {
    /// The least that Vulkan 1.2 guarantees, with 64-bit integers and device addresses.
    fn default() -> Self {
        Self {
            buffers: Buffers::Addresses,
            parameter_bytes_max: 128,
            shared_bytes_max: 16 << 10,
            threads_max: 128,
            features: Features::default(),
        }
    }
}

/// Optional features of a device. 64-bit integers (`shaderInt64`) are required, and buffer device addresses are
/// for [`Buffers::Addresses`] and for spilled parameters. Halves need no arithmetic of halves.
///
/// Of a device whose float controls are not independent for `f32` and `f64`, turn both on or neither.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Features {
    /// 64-bit floats.
    pub f64: bool,
    /// 8-bit integers in arithmetic and in shared memory; also bools in shared memory.
    pub i8: bool,
    /// 16-bit integers in arithmetic and in shared memory; also halves, which are handled as their bits.
    pub i16: bool,
    /// 8-bit elements of buffers; also bools.
    pub storage_8: bool,
    /// 16-bit elements of buffers; also halves.
    pub storage_16: bool,
    /// 64-bit atomics in buffers.
    pub buffer_i64_atomics: bool,
    /// 64-bit atomics in shared memory.
    pub shared_i64_atomics: bool,
    /// Atomic additions of `f32` in buffers.
    pub buffer_f32_atomic_add: bool,
    /// Atomic additions of `f32` in shared memory.
    pub shared_f32_atomic_add: bool,
    /// Atomic additions of `f64` in buffers.
    pub buffer_f64_atomic_add: bool,
    /// Atomic additions of `f64` in shared memory.
    pub shared_f64_atomic_add: bool,
    /// A size of subgroups, at most [`SUBGROUP_MAX`](millstream_ir::ssa::SUBGROUP_MAX), that a pipeline may require
    /// (`subgroupSizeControl`, `computeFullSubgroups`), with shuffles; 0 if there is none.
    pub subgroup_width: u32,
    /// The most such subgroups of a cube (`maxComputeWorkgroupSubgroups`).
    pub subgroups_max: u32,
    /// Shuffles of integers that do not have 32 bits (`shaderSubgroupExtendedTypes`).
    pub subgroup_extended_types: bool,
    /// Zeros keep their sign, and infinities and NaN are respected, in `f32`.
    pub preserve_f32: bool,
    /// Zeros keep their sign, and infinities and NaN are respected, in `f64`.
    pub preserve_f64: bool,
    /// Subnormal `f32` are not flushed to zero.
    pub subnormals_f32: bool,
    /// Subnormal `f64` are not flushed to zero.
    pub subnormals_f64: bool,
}

impl Features {
    /// Whether the device adds to floats of this type in a memory by one instruction.
    pub(crate) fn adds(&self, memory: Memory, dtype: DType) -> bool {
        match (dtype, matches!(memory, Memory::Shared(_))) {
            (DType::F32, false) => self.buffer_f32_atomic_add,
            (DType::F32, true) => self.shared_f32_atomic_add,
            (DType::F64, false) => self.buffer_f64_atomic_add,
            (DType::F64, true) => self.shared_f64_atomic_add,
            _ => false,
        }
    }
}

/// The reason why a function cannot be lowered for a target.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LowerError {
    /// The device lacks a feature.
    #[error(
        "kernel `{kernel}` {what}, which needs the feature `{feature}` of the device: {instead}, or use another device"
    )]
    Feature {
        /// The name of the function.
        kernel: String,
        /// What needs the feature, such as `computes with f64`.
        what: String,
        /// The feature of Vulkan.
        feature: &'static str,
        /// What the author of the kernel can do.
        instead: &'static str,
    },
    /// A cube exceeds a limit of the device.
    #[error(
        "kernel `{kernel}` needs {needed} {what} for each cube, but the device has {limit}: use smaller cubes or shared arrays"
    )]
    Limit {
        /// The name of the function.
        kernel: String,
        /// The kind of item.
        what: &'static str,
        /// The number of items that the function needs.
        needed: u32,
        /// The limit of the device.
        limit: u32,
    },
    /// The function has an operation that this version does not lower, or was not checked.
    #[error(
        "kernel `{kernel}` has `{what}`, which this version does not lower: check the function, or update the crate"
    )]
    Unsupported {
        /// The name of the function.
        kernel: String,
        /// The operation.
        what: String,
    },
}

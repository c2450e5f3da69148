//! Adopting a device that an application, such as an engine, has created.

use ash::vk;

/// A logical device of an application, and the queues that millstream may use, for [`Vulkan::adopt`](crate::Vulkan::adopt).
///
/// The application must have enabled Vulkan 1.2 with `timelineSemaphore`, `bufferDeviceAddress`, `scalarBlockLayout`,
/// `shaderInt64` and `synchronization2`. Optional features that it has enabled are listed in [`AdoptedFeatures`].
#[derive(Clone)]
pub struct AdoptedDevice {
    pub(crate) instance: ash::Instance,
    pub(crate) physical: vk::PhysicalDevice,
    pub(crate) device: ash::Device,
    pub(crate) queues: Vec<AdoptedQueue>,
    pub(crate) features: AdoptedFeatures,
}

/// A queue of an adopted device. Its family supports compute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdoptedQueue {
    /// The index of the queue's family.
    pub family: u32,
    /// The queue.
    pub raw: vk::Queue,
}

/// The optional features that are enabled on an adopted device. Kernels that need others are refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct AdoptedFeatures {
    /// `shaderFloat64`.
    pub f64: bool,
    /// `shaderFloat16`.
    pub f16: bool,
    /// `shaderInt16`.
    pub i16: bool,
    /// `shaderInt8`.
    pub i8: bool,
    /// `storageBuffer16BitAccess`.
    pub storage_16: bool,
    /// `storageBuffer8BitAccess`.
    pub storage_8: bool,
    /// `shaderBufferInt64Atomics`.
    pub buffer_i64_atomics: bool,
    /// `shaderSharedInt64Atomics`.
    pub shared_i64_atomics: bool,
    /// The extension `VK_KHR_push_descriptor`, which kernels in WGSL need.
    pub push_descriptor: bool,
}

impl AdoptedDevice {
    /// Describes a device without optional features.
    pub fn new(
        instance: ash::Instance,
        physical: vk::PhysicalDevice,
        device: ash::Device,
        queues: impl IntoIterator<Item = AdoptedQueue>,
    ) -> Self {
        Self {
            instance,
            physical,
            device,
            queues: queues.into_iter().collect(),
            features: AdoptedFeatures::default(),
        }
    }

    /// Sets the optional features that are enabled.
    #[must_use]
    pub fn features(mut self, features: AdoptedFeatures) -> Self {
        self.features = features;
        self
    }
}

//! Adopting a device that an application, such as an engine, has created.

use std::any::Any;
use std::sync::Arc;

use ash::vk;
use millstream_gpu::setters;

/// What an application keeps alive with a device.
pub(crate) type Owner = Arc<dyn Any + Send + Sync>;

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
    /// Families of further queues that use buffers of the device.
    pub(crate) families: Vec<u32>,
    pub(crate) shares_queues: bool,
    pub(crate) owner: Owner,
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
    /// The extension that [`calibration_extension`](crate::calibration_extension) returns, so that spans stand on the host's time axis.
    pub calibrated_timestamps: bool,
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
            families: Vec::new(),
            shares_queues: false,
            owner: Arc::new(()),
        }
    }

    /// Adds the families of queues on which the application will use buffers of millstream
    /// ([`VulkanResources::alias`](crate::VulkanResources::alias)), if they differ from those of the given queues.
    #[must_use]
    pub fn families(mut self, families: impl IntoIterator<Item = u32>) -> Self {
        self.families.extend(families);
        self
    }
}

setters! {
    AdoptedDevice:

    /// Sets the optional features that are enabled.
    features(features: AdoptedFeatures) => features = features;

    /// Declares that the application goes on using the given queues. Only a driven device may share queues, because it
    /// uses them on the thread that calls it; [`Device::open`] then returns an error.
    ///
    /// [`Device::open`]: https://docs.rs/millstream/latest/millstream/struct.Device.html#method.open
    share_queues() => shares_queues = true;

    /// Keeps a value, such as the engine's own reference to the device, until the device of millstream is closed and
    /// all its clients, kernels, answers, guards and aliases are dropped.
    owner(owner: impl Any + Send + Sync) => owner = Arc::new(owner);
}

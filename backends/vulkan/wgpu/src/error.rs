//! Errors.

use ash::vk;

/// Why wgpu and millstream cannot share a device or a buffer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WgpuError {
    /// wgpu runs on another API.
    #[error(
        "wgpu does not run on Vulkan here: request an adapter of an instance with `Backends::VULKAN`"
    )]
    NotVulkan,
    /// The device was not created with this setup.
    #[error(
        "the device of wgpu was not created with this `WgpuSetup`: create it with `WgpuSetup::request_device`, or \
         call `WgpuSetup::enable` in the callback of its creation"
    )]
    NotSetUp,
    /// The device lacks features of wgpu.
    #[error("the device of wgpu lacks {0:?}: add `WgpuSetup::features` to its `required_features`")]
    Features(wgpu::Features),
    /// The usages have no counterpart for a shared buffer.
    #[error(
        "a shared buffer cannot have the usages {0:?}: use copies, storage, uniform, vertex, index or indirect"
    )]
    Usages(wgpu::BufferUsages),
    /// wgpu refused to create the device.
    #[error("wgpu refused the device: {0}")]
    Device(String),
    /// The driver refused a call.
    #[error("the driver call `{call}` failed: {result}")]
    Driver {
        /// The name of the call.
        call: &'static str,
        /// The result.
        result: vk::Result,
    },
    /// A task of millstream failed.
    #[error(transparent)]
    Task(#[from] millstream::Error),
}

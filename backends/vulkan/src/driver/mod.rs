//! Owners of the driver's objects: `drop` destroys them, errors are typed, and a missing loader or feature is an error
//! that says what to do.

mod buffer;
mod cache;
mod calibration;
mod code;
mod context;
mod instance;
mod pipeline;
mod requirements;
mod semaphore;

use std::ffi::CStr;

use ash::vk;
pub(crate) use buffer::{ALIGNMENT, Alias, Buffer, Mapped, Purpose};
pub(crate) use cache::PipelineCache;
pub use cache::cached_pipelines;
pub(crate) use calibration::Calibration;
pub use calibration::calibration_extension;
pub(crate) use code::{Code, unavailable};
pub(crate) use context::Context;
#[doc(hidden)]
pub use instance::use_loader;
pub(crate) use instance::{Instance, MessageHandler};
pub use instance::{Message, Severity, Validation, loader_version};
pub(crate) use pipeline::{Interface, Pipeline};
pub(crate) use requirements::{Features, Gpu, QueueFamily};
pub(crate) use semaphore::TimelineSemaphore;

/// The oldest supported version of Vulkan.
pub(crate) const VERSION_MIN: u32 = ash::vk::API_VERSION_1_2;

/// Returns `true` if a device has this extension.
fn has(extensions: &[vk::ExtensionProperties], name: &CStr) -> bool {
    let is = |extension: &vk::ExtensionProperties| extension.extension_name_as_c_str() == Ok(name);
    extensions.iter().any(is)
}

/// Formats a version as major and minor.
pub(crate) fn version_text(version: u32) -> String {
    use ash::vk::{api_version_major, api_version_minor};
    format!(
        "{}.{}",
        api_version_major(version),
        api_version_minor(version)
    )
}

//! Opens whatever device there is.

use crate::{Cpu, Device, OpenError};

/// Opens a GPU if there is one that this build supports, otherwise the CPU. Tries CUDA, Vulkan and the CPU, in this order,
/// and logs with `tracing` why a GPU was not opened. [`Device::properties`] has what was opened. Blocks while the backends
/// open.
///
/// ```
/// let device = millstream::open_any()?;
/// println!("{}", device.properties().name);
/// # Ok::<(), millstream::OpenError>(())
/// ```
///
/// # Errors
/// The CPU cannot be opened: the system starts no thread.
pub fn open_any() -> Result<Device, OpenError> {
    #[cfg(feature = "cuda")]
    if let Some(device) = or_log(Device::open(crate::Cuda::default())) {
        return Ok(device);
    }
    #[cfg(feature = "vulkan")]
    if let Some(device) = or_log(Device::open(crate::Vulkan::default())) {
        return Ok(device);
    }
    Device::open(Cpu::default())
}

#[cfg(any(feature = "cuda", feature = "vulkan"))]
fn or_log(opened: Result<Device, OpenError>) -> Option<Device> {
    opened
        .inspect_err(|why| tracing::info!(target: "millstream", %why, "no such GPU is used"))
        .ok()
}

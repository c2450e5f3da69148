//! The generic code of devices, compiled for each backend of this package.
//!
//! Unoptimized programs use the instances that a crate they depend on has already compiled. So the tests and examples of this
//! workspace, about twenty programs, do not each compile the server, the actors and the client of every backend again.

use millstream_actors::Driver;

use crate::sim::Sim;
use crate::{Cpu, Device, DeviceOptions, OpenError};

/// The functions that open a device of one backend. All code of the device is reachable from them.
type Openers<O> = (
    fn(O, DeviceOptions) -> Result<Device, OpenError>,
    fn(O, DeviceOptions) -> Result<(Device, Driver), OpenError>,
);

/// Returns the functions that open a CPU.
pub fn cpu() -> Openers<Cpu> {
    (Device::open_with, Device::open_driven)
}

/// Returns the functions that open a simulator.
pub fn sim() -> Openers<Sim> {
    (Device::open_with, Device::open_driven)
}

/// Returns the functions that open a CUDA GPU.
#[cfg(feature = "cuda")]
pub fn cuda() -> Openers<crate::Cuda> {
    (Device::open_with, Device::open_driven)
}

/// Returns the functions that open a Vulkan GPU.
#[cfg(feature = "vulkan")]
pub fn vulkan() -> Openers<crate::Vulkan> {
    (Device::open_with, Device::open_driven)
}

//! Graphs on every kind of device, against numbers that were computed plainly.
//!
//! | module | what it is |
//! | --- | --- |
//! | `oracle` | what a graph should compute, one element after the other |
//! | `both` | an expression twice: as a lazy buffer and as its numbers |
//! | `operations` | every operation, of every type that it takes |
#![allow(
    clippy::unwrap_used,
    reason = "a test says what it expects by unwrapping"
)]

mod both;
mod operations;
mod oracle;

use millstream::{ComputeClient, Cpu, Device, DeviceOptions};

/// Runs what is checked on the CPU.
pub(crate) fn on_cpu(check: impl FnOnce(&ComputeClient)) {
    let device = Device::open_with(
        Cpu::default().queues(2).threads(2),
        DeviceOptions::default(),
    );
    let device = device.unwrap();
    check(&device.client());
}

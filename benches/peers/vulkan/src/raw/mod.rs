//! The raw side: calls of the driver, written by hand as a good engineer would for this work.
//!
//! - Kernels receive addresses as push constants; no descriptors.
//! - One timeline semaphore per queue; command pools are reset once their value has passed.
//! - One `vkQueueSubmit2` per batch, and one barrier between dependent launches.

mod counted;
mod gpu;
mod memory;
mod plan;
mod recorder;

pub(crate) use counted::{Calls, counting, set_empty_dispatches};
pub(crate) use gpu::{Gpu, SPIRV};
pub(crate) use memory::{Memory, Place};
pub(crate) use plan::Plan;
pub(crate) use recorder::Recorder;

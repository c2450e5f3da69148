//! The Vulkan backend on the driver of this machine, with Khronos' validation layer if it is installed.
//!
//! Without a driver every test is skipped, and says so. `MILLSTREAM_VULKAN=required` makes that a failure, and also
//! requires the validation layer: CI sets it, where `cargo xtask vulkan` provides both.
//!
//! | module | subject |
//! | --- | --- |
//! | `adopted` | a device of the application |
//! | `cache` | the pipeline cache on disk |
//! | `subject` | the device of a test, and the messages of the validation layer |
//! | `wgsl` | kernels in WGSL |
//! | `suite` | the suite of the runtime's behaviour |
#![allow(
    clippy::unwrap_used,
    reason = "in a test, `unwrap` states the expected outcome"
)]

mod adopted;
mod cache;
mod subject;
mod wgsl;

use subject::OnVulkan;

millstream_conformance::suite!(vulkan: OnVulkan; threads, one_queue, driven);

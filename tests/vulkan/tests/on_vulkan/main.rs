//! The Vulkan backend on the driver of this machine, with Khronos' validation layer if it is installed.
//!
//! Without a driver every test is skipped, and says so. `MILLSTREAM_VULKAN=required` makes that a failure, and also
//! requires the validation layer: CI sets it, where `cargo xtask vulkan` provides both.
//!
//! | module | subject |
//! | --- | --- |
//! | `subject` | the device of a test, and the messages of the validation layer |
//! | `glsl` | the SPIR-V of the repository is the compiler's output for the GLSL beside it |
//! | `suite` | the suite of the runtime's behaviour |
#![allow(
    clippy::unwrap_used,
    reason = "in a test, `unwrap` states the expected outcome"
)]

mod glsl;
mod subject;

use subject::OnVulkan;

millstream_conformance::suite!(vulkan: OnVulkan; threads, one_queue, driven);

//! The Vulkan backend on an intercepted driver that refuses calls, loses the device, or makes no progress, and the
//! number of driver calls of each operation. Khronos' validation layer checks all other calls.
//!
//! Without a driver every test is skipped, and says so; `MILLSTREAM_VULKAN=required` makes that a failure.
#![allow(
    clippy::unwrap_used,
    reason = "in a test, `unwrap` states the expected outcome"
)]

mod calls;
mod loss;
mod refusals;
mod waits;

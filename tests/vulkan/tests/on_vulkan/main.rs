//! The Vulkan backend on the driver of this machine, with Khronos' validation layer if it is installed.
//!
//! Without a driver every test is skipped, and says so. `MILLSTREAM_VULKAN=required` makes that a failure, and also
//! requires the validation layer: CI sets it, where `cargo xtask vulkan` provides both.
//!
//! | module | subject |
//! | --- | --- |
//! | `adopted` | a device of the application |
//! | `algorithms` | kernels that are Rust functions |
//! | `cache` | the pipeline cache on disk |
//! | `clock` | the time axis of spans |
//! | `examples` | the game loop and the service |
//! | `subject` | the device of a test, and the messages of the validation layer |
//! | `wgsl` | kernels in WGSL |
//! | `gpu` | a device with a stream, for tests of kernels |
//! | `glsl` | the SPIR-V of the repository is the compiler's output for the GLSL beside it |
//! | `suite` | the suite of the runtime's behaviour |
//! | `nests`, `products`, `functions`, `operations` | results of the IR's kernels, compared with the interpreter |
//! | `graph_suite` | the tests of `tests/graph` |
//! | `graphs` | random graphs, compared with NumPy |
//! | `programs` | random programs with kernels of the IR, and those of the swarm |
//! | `stepping_in` | callers that submit and wait themselves |
//! | `barriers` | which tasks of a queue are separated by barriers |
//! | `replays` | recordings as secondary command buffers |
//! | `launches` | cube counts that the device writes, counts beyond its limits, large parameter blocks |
#![allow(
    clippy::unwrap_used,
    reason = "in a test, `unwrap` states the expected outcome"
)]

mod adopted;
mod algorithms;
mod barriers;
mod cache;
mod clock;
mod examples;
mod functions;
mod glsl;
mod gpu;
mod graph_suite;
mod graphs;
mod launches;
mod nests;
mod operations;
mod products;
mod programs;
mod replays;
mod stepping_in;
mod subject;
mod wgsl;

use subject::OnVulkan;

// With one queue: the suite on the CPU, and random programs here.
millstream_conformance::suite!(vulkan: OnVulkan; threads, driven);

//! Graphs on every kind of device: schedules, runs, bindings and failures. The cases of `tests/graph-fuzz` compare
//! values with NumPy.
//!
//! | module | contents |
//! | --- | --- |
//! | `branches` | independent branches |
//! | `crossing_stores` | stores that need each other's old versions |
//! | `failures` | failures in the data of a run, and later runs |
//! | `functions` | composed functions |
//! | `gradients` | gradients, compared with finite differences |
//! | `gradients_torch` | gradients at corners, compared with those of PyTorch |
//! | `hard_cases` | known errors of graph compilers, case by case |
//! | `models` | the models of the examples |
//! | `multi_output` | several values of one buffer, computed together |
//! | `running` | bindings, versions of buffers, caches, many threads |
//! | `split_reductions` | reductions of few long rows, in two stages |
//! | `ssa_calls` | calls of SSA functions |
//! | `storing` | the buffers that `set` and similar operations store into |
//! | `tuned` | programs with tuned blockings |
//!
//! `tests/vulkan` runs most of these modules on Vulkan. Their parent module defines the devices.
#![allow(clippy::unwrap_used, reason = "tests unwrap values that they expect")]

mod branches;
mod crossing_stores;
mod failures;
mod functions;
mod gradients;
mod gradients_torch;
mod hard_cases;
mod models;
mod multi_output;
mod running;
mod split_reductions;
mod ssa_calls;
mod storing;
#[path = "../conformance/tests/devices/support/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "graphs need only the devices"
)]
mod support;
#[cfg(feature = "tune")]
mod tuned;

use millstream::ComputeClient;
use millstream::graph::{CompiledSchedule, LazyBuffer, Schedule};
use rstest_reuse::template;

/// Every kind of device on which a graph has the same results. GPUs compile its kernels with NVRTC, so they need it.
#[template]
#[rstest]
#[case::cpu(crate::support::On::Cpu)]
#[case::cpu_driven(crate::support::On::CpuDriven)]
#[case::sim(crate::support::On::Sim)]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
#[case::cuda(crate::support::On::Cuda)]
pub(crate) fn every_device(#[case] on: crate::support::On) {}

/// The device of tests that need only one.
pub(crate) const ONE: support::On = support::On::Cpu;

/// A device that runs kernels in Rust.
pub(crate) const WITH_RUST_KERNELS: support::On = support::On::Cpu;

/// Compiles the schedule of one root.
pub(crate) fn compile(client: &ComputeClient, root: &LazyBuffer) -> CompiledSchedule {
    let schedule = Schedule::create_one(root).expect("the root is valid");
    schedule.compile(client).expect("the schedule compiles")
}

/// Whether kernels take long to compile for this device.
pub(crate) fn compiles_slowly(on: support::On) -> bool {
    on == support::On::Cuda
}

/// Returns a description of each graph that was recorded, if the test's device runs on the fake driver.
pub(crate) fn recorded_graphs(checks: &dyn millstream_conformance::Checks) -> Option<Vec<String>> {
    support::session(checks).map(fake_cuda::Session::graphs)
}

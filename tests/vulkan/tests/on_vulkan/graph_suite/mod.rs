//! The tests of graphs in `tests/graph`, on Vulkan. Kernels receive descriptors, so that the validation layer sees
//! their accesses.
//!
//! Without a Vulkan device these tests run on the CPU, and say so: a test cannot be skipped when its device is opened.

#[path = "../../../../graph/branches.rs"]
mod branches;
#[path = "../../../../graph/crossing_stores.rs"]
mod crossing_stores;
#[path = "../../../../graph/failures.rs"]
mod failures;
#[path = "../../../../graph/functions.rs"]
mod functions;
#[path = "../../../../graph/gradients.rs"]
mod gradients;
#[path = "../../../../graph/hard_cases.rs"]
mod hard_cases;
#[path = "../../../../graph/models.rs"]
mod models;
#[path = "../../../../graph/multi_output.rs"]
mod multi_output;
#[path = "../../../../graph/running.rs"]
mod running;
#[path = "../../../../graph/split_reductions.rs"]
mod split_reductions;
#[path = "../../../../graph/ssa_calls.rs"]
mod ssa_calls;
#[path = "../../../../graph/storing.rs"]
mod storing;
mod support;
#[path = "../../../../graph/tuned.rs"]
mod tuned;

use millstream::ComputeClient;
use millstream::graph::{CompiledSchedule, LazyBuffer, Schedule};
use rstest_reuse::template;

/// The devices of the tests.
#[template]
#[rstest]
#[case::vulkan(crate::graph_suite::support::On::Vulkan)]
pub(crate) fn every_device(#[case] on: crate::graph_suite::support::On) {}

/// The device of tests that need only one.
pub(crate) const ONE: support::On = support::On::Vulkan;

/// A device that runs kernels in Rust.
pub(crate) const WITH_RUST_KERNELS: support::On = support::On::Cpu;

/// Compiles the schedule of one root.
pub(crate) fn compile(client: &ComputeClient, root: &LazyBuffer) -> CompiledSchedule {
    let schedule = Schedule::create_one(root).expect("the root is valid");
    schedule.compile(client).expect("the schedule compiles")
}

/// Whether kernels take long to compile for this device.
pub(crate) fn compiles_slowly(_on: support::On) -> bool {
    true
}

/// The checks of Vulkan know no recorded graphs.
pub(crate) fn recorded_graphs(_checks: &dyn millstream_conformance::Checks) -> Option<Vec<String>> {
    None
}

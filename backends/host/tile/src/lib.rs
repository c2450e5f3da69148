//! Programs of the IR on a CPU: an interpreter over tiles.
//!
//! A nest becomes a straight list of instructions, each of which is a loop over a *tile*: some hundred elements that lie in
//! the first cache. The loops are plain Rust over slices, compiled for several levels of processors, so that compiling a
//! nest takes microseconds and running it goes at the speed of a loop written by hand, or close to it.
//!
//! ```text
//!  Program --Code::compile--> Plan: instructions over slots          once
//!  words, bindings --Launch::prepare--> paths, checked, few axes     each launch
//!  pieces of the index space --Team::share--> Machine::run           on any threads
//! ```
//! | module | what it is |
//! | --- | --- |
//! | `code` | [`Code`]: a compiled program, and how it is run |
//! | `nest` | which plan suits a launch, and what is remembered of the last ones |
//! | `build`, `plan`, `slot`, `plans` | from a nest to instructions, over tiles and with machine code |
//! | `launch`, `misfit`, `space` | what a launch brings, checked |
//! | `machine`, `tiles`, `lanes`, `scratch` | runs pieces tile by tile, in a thread's own memory |
//! | `matmul` | products of matrices |
//! | `fuse` | several operations in one loop, in the processor's code |
//! | `level`, `kernels`, `number`, `half`, `math` | the loops |
//! | `naive` | the same by definition, slowly: what tests compare with |
//!
//! Invariants
//! 1. No launch touches a byte outside of its bindings, whatever its words say: `launch` checks each access first.
//! 2. Results do not depend on how many threads there are: how the index space is cut depends on lengths alone.
//! 3. The steady state allocates nothing (I9): what a launch needs is kept by the thread.

#![cfg_attr(
    not(all(feature = "machine-code", target_arch = "x86_64")),
    allow(dead_code, reason = "some is read by machine code alone")
)]

mod build;
mod code;
mod compile_error;
#[cfg(all(feature = "machine-code", target_arch = "x86_64"))]
mod fuse;
mod half;
mod kernels;
mod lanes;
mod launch;
mod launch_error;
mod level;
mod machine;
mod math;
mod matmul;
#[cfg(any(test, feature = "naive"))]
pub mod naive;
mod nest;
mod number;
mod options;
mod plan;
mod plans;
mod scratch;
mod slot;
mod space;
mod team;
mod tiles;
mod transpose;

#[cfg(test)]
mod tests;

pub use code::Code;
pub use compile_error::CompileError;
pub use launch_error::LaunchError;
pub use options::Options;
pub use team::{RunError, SingleThread, Team};

/// Most outer, and most inner axes of a nest.
pub const AXES_MAX: usize = 12;

/// Costs are kept in fractions of a nanosecond.
const COST_UNIT: u64 = 256;

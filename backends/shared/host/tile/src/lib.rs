//! Executes programs of the IR on a CPU: an interpreter over tiles.
//!
//! A nest becomes a list of instructions without branches. Each instruction is a loop over a *tile*: some hundred
//! elements that lie in the L1 cache. The loops are plain Rust over slices, compiled for several levels of
//! processors. So compiling a nest takes microseconds, and running it is as fast as a handwritten loop, or close to
//! it.
//!
//! ```text
//!  Program --Code::compile--> Plan: instructions over slots          once
//!  words, bindings --Launch::prepare--> checked paths, few axes      each launch
//!  pieces of the index space --Team::share--> Machine::run           on any threads
//! ```
//! | module | contents |
//! | --- | --- |
//! | `code` | [`Code`]: a compiled program, and running it |
//! | `nest` | the plan for a launch, and the cache of prepared launches |
//! | `build`, `plan`, `slot`, `plans` | from a nest to instructions, over tiles and as machine code |
//! | `launch`, `prepare_error`, `space` | the checked arguments of a launch |
//! | `machine`, `tiles`, `lanes`, `transpose`, `scratch` | runs pieces tile by tile, in a thread's own memory |
//! | `matmul` | products of matrices |
//! | `fuse` | several operations in one loop of machine code |
//! | `kernels` | the loops, of the operations of [`millstream_loops`] |
//!
//! The head of `plan` defines the words that these modules use.
//!
//! # Invariants
//! 1. No launch touches a byte outside its bindings, whatever its words are: `launch` checks each access first.
//! 2. Results do not depend on the number of threads: the partition of the index space depends on lengths alone.
//! 3. In the steady state nothing is allocated (I9): each thread reuses the memory of its launches.

#![cfg_attr(
    not(all(feature = "machine-code", target_arch = "x86_64")),
    allow(dead_code, reason = "some items are used by machine code only")
)]

mod build;
mod code;
#[cfg(all(feature = "machine-code", target_arch = "x86_64"))]
mod fuse;
mod kernels;
mod lanes;
mod launch;
mod machine;
mod matmul;
mod nest;
mod options;
mod plan;
mod plans;
mod prepare_error;
mod scratch;
mod slot;
mod space;
mod team;
mod tiles;
mod transpose;

#[cfg(test)]
mod tests;

pub use crate::prepare_error::CompileError;
pub use code::Code;
pub use options::Options;
pub use team::{RunError, SingleThread, Team};

/// The greatest number of outer, and of inner axes of a nest.
pub const AXES_MAX: usize = 12;

/// Costs are stored in fractions of a nanosecond.
const COST_UNIT: u64 = 256;

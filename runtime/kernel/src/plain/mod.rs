//! Kernels as plain Rust, on the CPU: operations, buffers, and the loop over the threads of a launch.
//!
//! `traced` has functions of the same names and shapes, which add to a program. The macro writes one body for each.

mod atomics;
mod bounds;
mod buffer;
mod functions;
mod math;
mod memory;
mod operators;
mod ranges;
mod say;
mod shared;
mod thread;
mod threads;

pub(crate) use atomics::check_size;
pub use bounds::{Calls, InCube};
pub use buffer::{Along, Atomics, In, Own, Shared, View};
pub use functions::*;
pub use math::*;
pub use memory::{At, Get, Length, Set, Slots, change, get, len, set, slot};
pub use operators::*;
pub use ranges::{inclusive, range, reversed, steps};
pub use say::fail;
pub use thread::Thread;
pub use threads::{Body, run};

//! Kernels as programs: values and statements that are added to a function of the IR while the kernel's body runs once.
//!
//! `plain` has functions of the same names and shapes. The macro writes one body for each.

mod atomics;
mod constant;
mod control;
mod functions;
mod gate;
mod math;
mod memory;
mod operators;
mod parameters;
mod say;
mod value;

pub use atomics::Atomics;
pub use constant::{Constant, constant};
pub(crate) use control::trace;
pub use control::{
    Exit, all, any, branch, call, for_inclusive, for_range, for_reversed, for_steps, helper,
    repeat, when, while_loop,
};
pub use functions::*;
pub use gate::{Gate, size_of_output};
pub use math::*;
pub use memory::{
    Array, AtomicBuffer, Buffer, Group, Memory, Place, array, filled, get, len, set, shared,
};
pub use operators::*;
pub use parameters::Numbers;
pub use say::said;
pub use value::{Jump, Kind, Of, Traced, Tracer, V, lit, never};

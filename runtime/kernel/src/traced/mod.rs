//! Kernels as programs: values and statements that are added to a function of the IR while the kernel's body runs once.
//!
//! `plain` has functions of the same names and shapes. The macro writes one body for each.

mod array;
mod atomics;
mod control;
mod functions;
mod gate;
mod math;
mod memory;
mod operators;
mod parameters;
mod say;

pub use array::{Array, array, filled};
pub use atomics::Atomics;
pub(crate) use control::trace;
pub use control::{
    Exit, all, any, branch, call, choose, for_inclusive, for_range, for_reversed, for_steps,
    helper, repeat, when, while_loop,
};
pub use functions::*;
pub use gate::{Gate, size_of_output};
pub use math::*;
pub use memory::{
    AtomicBuffer, Buffer, BufferMut, Group, Memory, MemoryMut, Place, get, len, place, set, shared,
};
pub use operators::*;
pub use parameters::Numbers;
pub use say::said;

pub use crate::value::{Inside, Jump, Kind, Of, Traced, Tracer, V, Words, constant, lit, never};

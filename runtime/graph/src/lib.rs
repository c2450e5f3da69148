//! Lazy buffers, fused kernels, and schedules that any thread can run.
//!
//! ```text
//!  LazyBuffer ──Schedule::create──► Schedule ──compile──► CompiledSchedule ──run──► one message
//!  a node of an    roots, fused      items in     programs compiled, memory    inputs, lengths and
//!  immutable DAG   into few items    order        planned, recorded            scalars bound
//! ```
//! | module | contents |
//! | --- | --- |
//! | `lazy` | lazy buffers and their operations |
//! | `shape`, `size` | shapes, whose lengths may be unknown until a schedule runs |
//! | `literal`, `elements` | numbers as elements of a type; the Rust types that can represent an element type |
//! | `schedule` | fusion, versions of buffers, order of items, lowering to programs, the buffers of a schedule |
//! | `plan` | the placement of temporaries |
//! | `compiled` | compiled schedules: kernels, recordings, caches, runs |
//! | `kernel_name` | the names of kernels |
//! | `tuner`, `tuned` | tuning of programs, and of how schedules split reductions |
//! | `error` | the errors |

mod compiled;
mod elements;
mod error;
mod kernel_name;
mod lazy;
mod literal;
mod plan;
mod schedule;
mod shape;
mod size;
#[cfg(test)]
mod steps;
#[cfg(feature = "tune")]
mod tuned;
#[cfg(feature = "tune")]
mod tuner;

pub use compiled::{
    CacheStats, CompiledSchedule, GraphCache, ItemReport, Output, Outputs, Roofline, Run,
    RunReport, Tensor,
};
pub use error::{GraphError, ScheduleError};
pub use lazy::buffer::{LazyBuffer, Operand};
pub use lazy::custom::Call;
pub use lazy::graph::Graph;
pub use lazy::node::Layout;
pub use lazy::reduce::Over;
pub use lazy::scalar::{CallScalar, Scalar};
pub use literal::Literal;
pub use millstream_ir::DType;
pub use schedule::item::{Item, ItemKind};
pub use schedule::split::Parts;
pub use schedule::{InputInfo, OutputInfo, Schedule};
pub use shape::{MAX_RANK, Shape};
pub use size::{Size, Symbol};
#[cfg(feature = "tune")]
pub use tuned::TunedItem;
#[cfg(feature = "tune")]
pub use tuner::{GraphTuner, ProgramKey};

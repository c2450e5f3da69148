//! Lazy buffers, fused kernels, and schedules that run from any thread.
//!
//! ```text
//!  LazyBuffer ──Schedule::create──► Schedule ──compile──► CompiledSchedule ──run──► one message
//!  a node of an    roots, fused      items in     programs compiled, memory    inputs, lengths and
//!  immutable DAG   into few items    order        planned, recorded            scalars bound
//! ```
//! | module | what it is |
//! | --- | --- |
//! | `lazy` | lazy buffers and their operations |
//! | `shape`, `size` | shapes whose lengths may be known only when a schedule runs |
//! | `literal`, `elements` | numbers as elements of a type; Rust types that may stand for one |
//! | `schedule` | what is computed with what: fusion, order, versions of buffers |
//! | `memory` | which buffers a schedule has, and where its temporaries lie |
//! | `compiled` | schedules that run: kernels compiled, everything recorded |
//! | `kernel_name` | what kernels are called |
//! | `tuner`, `tuned` | programs cut up as is the fastest; schedules that are tuned |
//! | `error` | what can be wrong |

mod compiled;
mod elements;
mod error;
mod kernel_name;
mod lazy;
mod literal;
mod memory;
mod schedule;
mod shape;
mod size;
#[cfg(feature = "tune")]
mod tuned;
#[cfg(feature = "tune")]
mod tuner;

pub use compiled::{
    CacheStats, CompiledHeld, CompiledSchedule, GraphCache, ItemReport, Output, Outputs,
    Preparation, Prepared, Roofline, Run, RunReport, Tensor,
};
pub use error::{GraphError, ScheduleError, Why};
pub use lazy::buffer::{LazyBuffer, Operand};
pub use lazy::custom::Call;
pub use lazy::graph::Graph;
pub use lazy::node::Layout;
pub use lazy::reduce::Over;
pub use lazy::scalar::{CallScalar, Scalar};
pub use literal::Literal;
pub use millstream_ir::DType;
pub use schedule::hold::{HeldSchedule, Hold};
pub use schedule::item::{Item, ItemKind};
pub use schedule::parts::Parts;
pub use schedule::{InputInfo, OutputInfo, Schedule};
pub use shape::{MAX_RANK, Shape};
pub use size::{Size, Symbol};
#[cfg(feature = "tune")]
pub use tuned::TunedItem;
#[cfg(feature = "tune")]
pub use tuner::{GraphTuner, ProgramKey};

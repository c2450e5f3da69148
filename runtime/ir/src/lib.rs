//! What kernels are made of, for every device: element types, operations, and programs.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`dtype`](DType) | element types |
//! | [`op`] | what is done to values, in words that all levels share |
//! | [`scalar`] | what these words mean: the reference that every device is compared with |
//! | [`nest`] | a fused kernel over an index space: what the graph compiler makes |
//! | [`matmul`](Matmul) | a product of matrices |
//! | [`ssa`] | what one thread of a cube does: hand-written kernels, and what nests become on GPUs |
//! | [`lower`] | nests and products as functions of a thread |
//! | [`program`](Program) | any of them |
//! | [`blocking`](Blocking) | how they are cut up for a device |
//!
//! Plain data and pure functions. This crate knows no device, and depends on what floats need alone: `half` and `libm`.

mod blocking;
mod dtype;
pub mod lower;
mod matmul;
pub mod nest;
pub mod op;
mod program;
pub mod scalar;
pub mod ssa;
mod text;

pub use blocking::{Blocking, Rows};
pub use dtype::DType;
pub use matmul::Matmul;
pub use nest::{Nest, NestError};
pub use op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
pub use program::{Program, ProgramError};
pub use text::TextError;

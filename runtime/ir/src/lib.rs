//! The intermediate representation of kernels for all devices: element types, operations and programs.
//!
//! | module | contents |
//! | --- | --- |
//! | [`dtype`](DType) | element types |
//! | [`op`] | the operations that all levels share |
//! | [`scalar`] | the meaning of these operations: the reference that every device is compared with |
//! | [`nest`] | a fused kernel over an index space, as the graph compiler makes it |
//! | [`matmul`](Matmul) | a matrix product |
//! | [`ssa`] | the program of one thread of a cube: written by hand, or lowered from a nest for a GPU |
//! | [`lower`] | lowers nests and products to SSA |
//! | [`program`](Program) | any of these programs |
//! | [`error`](ProgramError) | why a program is invalid |
//! | [`text`] | a scanner of the texts of programs |
//! | [`blocking`](Blocking) | how a device divides the work of a program |
//!
//! All of it is plain data and pure functions. The crate does not depend on devices; its only dependencies are `half`
//! and `libm`.

mod blocking;
mod dtype;
mod error;
pub mod lower;
mod matmul;
mod named;
pub mod nest;
pub mod op;
mod program;
pub mod scalar;
pub mod ssa;
pub mod text;

pub use blocking::{Blocking, Rows};
pub use dtype::DType;
pub use error::ProgramError;
pub use matmul::Matmul;
pub use nest::Nest;
pub use op::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
pub use program::Program;
pub use text::TextError;

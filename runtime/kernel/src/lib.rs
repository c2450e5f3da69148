//! Kernels as Rust functions: what the code that the macro `#[kernel]` writes calls.
//!
//! | module | contents |
//! | --- | --- |
//! | [`number`] | the numbers that kernels compute with |
//! | [`plain`] | the kernel as plain Rust, for the CPU |
//! | [`traced`] | the kernel as a program, for all other devices |
//! | [`call`] | typed launches |

pub mod call;
pub mod number;
pub mod plain;
pub mod traced;

pub use millstream_kernel_macros::kernel;

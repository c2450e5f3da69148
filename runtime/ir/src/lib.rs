//! Element types of millstream's kernels and tensors.
//!
//! Data types only, for now: the kernel IR and its SSA level join when the graph compiler does.
//! This crate depends on nothing.

mod dtype;

pub use dtype::DType;

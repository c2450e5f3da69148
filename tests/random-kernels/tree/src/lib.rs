//! Random kernels as trees: their text in Rust, and what they compute.
//!
//! | module | contents |
//! | --- | --- |
//! | [`number`] | the types, and what each operation gives: written anew, from what the guide promises |
//! | [`method`] | the methods of numbers |
//! | [`tree`] | expressions, statements, helper functions, kernels |
//! | [`make`] | a kernel of each seed |
//! | [`text`] | its text, with `#[kernel]` |
//! | [`run`] | an interpreter |
//!
//! All accesses are in bounds, all loops end, and no two threads access an element that one of them changes.

pub mod dice;
pub mod make;
pub mod method;
pub mod number;
pub mod run;
pub mod text;
pub mod tree;

pub use make::kernel;

/// The seeds of the kernels that `cargo test` compiles: few, which together have each feature.
pub const TESTED: std::ops::Range<u64> = 2530..2554;

//! Lazy buffers: expressions that a schedule computes later.
//!
//! | module | contents |
//! | --- | --- |
//! | [`graph`] | the arena of nodes |
//! | `leaves` | nodes without operands: inputs, buffers, numbers, indices, random bits |
//! | [`buffer`] | the lazy buffer: a reference to a node, or an error |
//! | [`node`] | a node: an operation and its operands |
//! | [`arith`] | elementwise methods and operators |
//! | `functions` | limits and activations, with gradients of their own |
//! | `elementary` | rounding, signs, `log1p` and other elementary functions |
//! | `arrange` | padding, reversal, repetition, rotation; running sums |
//! | `einsum` | products of named axes |
//! | [`views`] | the same elements in another shape |
//! | [`reduce`] | reductions |
//! | [`place`] | gather, scatter, cat, set |
//! | [`linear`] | matrix products |
//! | [`custom`], [`callee`] | kernels of users |
//! | `gradient` | reverse-mode differentiation |
//! | [`scalar`] | numbers that runs may set |
//!
//! # Errors
//! An operation that is invalid makes a *refused* buffer, which carries the error and its place in the source to every
//! buffer that is made of it, as failed data does on a device (I7). A `Result` for each operation would hide what is
//! computed, as in `(x.matmul(&w)? + &b)?.relu()?`, and operators do not accept one. A panic would end a service
//! because one user sent an image of another size. The cost: a refused buffer has a type (`bool`) and a shape (no
//! axes), so code that branches on shapes calls `LazyBuffer::check` first.

pub(crate) mod arith;
mod arrange;
pub(crate) mod buffer;
pub(crate) mod callee;
pub(crate) mod custom;
mod einsum;
mod elementary;
mod functions;
mod gradient;
pub(crate) mod graph;
mod leaves;
pub(crate) mod linear;
pub(crate) mod node;
pub(crate) mod place;
pub(crate) mod reduce;
pub(crate) mod scalar;
pub(crate) mod views;

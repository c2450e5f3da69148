//! Lazy buffers: what will be computed, written down.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`graph`] | the arena of nodes |
//! | `leaves` | what expressions begin with: inputs, buffers, numbers, indices, random bits |
//! | [`buffer`] | the lazy buffer: a hold on a node, or why there is none |
//! | [`node`] | a node: an operation and what it is done to |
//! | [`arith`] | elementwise methods and operators |
//! | `elementary` | rounding, signs, `log1p` and their like |
//! | `arrange` | padded, reversed, repeated, rolled; running sums |
//! | `einsum` | products of named axes |
//! | [`views`] | the same elements in another shape |
//! | [`reduce`] | reductions |
//! | [`place`] | gather, scatter, cat, set |
//! | [`linear`] | products of matrices |
//! | [`custom`], [`callee`] | kernels of users; what is called |
//! | `gradient` | how a result depends on what it is computed from |
//! | [`scalar`] | numbers that runs may change |

pub(crate) mod arith;
mod arrange;
pub(crate) mod buffer;
pub(crate) mod callee;
pub(crate) mod custom;
mod einsum;
mod elementary;
mod gradient;
pub(crate) mod graph;
mod leaves;
pub(crate) mod linear;
pub(crate) mod node;
pub(crate) mod place;
pub(crate) mod reduce;
pub(crate) mod scalar;
pub(crate) mod views;

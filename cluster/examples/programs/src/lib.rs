//! Two programs over groups: reaction and diffusion on a grid, and a network that learns handwritten digits; for tests,
//! random programs of all calls. They run on the devices of one process, on simulated ranks and on the ranks of MPI.

#![allow(
    clippy::len_without_is_empty,
    clippy::unwrap_used,
    missing_docs,
    reason = "for the examples and tests of this repository alone"
)]

pub mod calls;
pub mod digits;
pub mod idle;
pub mod networks;
pub mod reaction;

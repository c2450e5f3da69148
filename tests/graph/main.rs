//! Graphs on every kind of device, against numbers that were computed plainly.
//!
//! | module | what it is |
//! | --- | --- |
//! | `oracle` | what a graph should compute, one element after the other |
//! | `both` | an expression twice: as a lazy buffer and as its numbers |
//! | `branches` | branches that need nothing of each other |
//! | `failures` | failures in the data of a run, and runs after it |
//! | `functions` | functions that are made of others |
//! | `gradients` | gradients, against finite differences |
//! | `hand` | functions that were written by hand |
//! | `hard_cases` | what graph compilers get wrong, case by case |
//! | `held` | what is made once of inputs that rarely change |
//! | `models` | the models of the examples |
//! | `operations` | every operation, of every type that it takes |
//! | `parts` | few long rows, reduced in parts |
//! | `random` | random graphs |
//! | `reference` | what NumPy computed |
//! | `running` | rebinding, versions of buffers, caches, many threads |
//! | `sinks` | several values of one buffer, computed together |
//! | `storing` | what `set` and its like store into |
//! | `tuned` | programs cut up as a tuner finds best |
#![allow(
    clippy::unwrap_used,
    reason = "a test says what it expects by unwrapping"
)]

mod both;
mod branches;
mod crossing;
mod failures;
mod functions;
mod gradients;
mod hand;
mod hard_cases;
mod held;
mod models;
mod operations;
mod oracle;
mod parts;
mod random;
mod reference;
mod running;
mod sinks;
mod storing;
#[path = "../conformance/tests/devices/support/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "graphs need the devices alone"
)]
mod support;
#[cfg(feature = "tune")]
mod tuned;

use rstest_reuse::template;

/// Every kind of device that a graph gives the same on. GPUs compile its kernels by NVRTC, so they are there where that is.
#[template]
#[rstest]
#[case::cpu(crate::support::On::Cpu)]
#[case::cpu_driven(crate::support::On::CpuDriven)]
#[case::sim(crate::support::On::Sim)]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
#[case::cuda(crate::support::On::Cuda)]
pub(crate) fn every_device(#[case] on: crate::support::On) {}

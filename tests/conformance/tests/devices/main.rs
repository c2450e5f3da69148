//! What is about the project's own devices, and the suite on CUDA. The suite on the CPU and on the simulator is in `tests/behaviour.rs`
//! of the library.
//!
//! A test's name is the fact; a comment names the invariant of `docs/design.md` that it guards.
#![allow(
    clippy::unwrap_used,
    reason = "a test says what it expects by unwrapping"
)]

mod support;

mod altered;
mod backends;
mod dying;
mod faulty;
mod gpu_programs;
mod loss;
mod one_device;
mod reopening;
mod replaying;
mod tuning;
mod twins;

use millstream_conformance::{program, suite};
use support::OnCuda;

suite!(cuda: OnCuda; threads, one_queue, driven);

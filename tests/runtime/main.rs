//! The behaviour of the runtime, fact by fact, on every kind of device that the project has: the suite
//! (`millstream-conformance`) on each of them, and beside it what is about a device of ours, or about no device.
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
#[cfg(feature = "tune")]
mod tuning;
mod twins;

use millstream_conformance::{program, suite};
use support::{OnCpu, OnCuda, OnSim};

suite!(cpu: OnCpu; threads, one_queue, driven);
suite!(sim: OnSim; threads, driven);
suite!(cuda: OnCuda; threads, one_queue, driven);

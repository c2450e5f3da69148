//! Tests about the project's own devices, and the suite on CUDA. `tests/behaviour.rs` of the library runs the suite on
//! the CPU and on the simulator.
//!
//! A test's name states the subject, the condition and the outcome; its comment names the invariant of
//! `docs/design.md`.
//!
//! | module | subject |
//! | --- | --- |
//! | `altered`, `backends` | the CPU with planted mistakes, which the suite must find; properties and languages of a backend |
//! | `argument_texts` | the texts of argument errors |
//! | `switch`, `loss_rig` | the switch that loses such a CPU, and helpers for the tests of lost devices |
//! | `dropped_code` | the threads on which code is dropped that does not run |
//! | `loss`, `reopening` | losing a device, and opening it again |
//! | `replaying` | the submission log |
//! | `tuning` | autotuning by the device's clock |
//! | `gpu_programs`, `twins` | random programs on CUDA; the PTX of the suite's kernels |
//! | `one_device` | tests that need only one device: options, limits, misbehaving user code |
#![allow(
    clippy::unwrap_used,
    reason = "in a test, `unwrap` states the expected outcome"
)]

mod support;

mod altered;
mod argument_texts;
mod backends;
mod dropped_code;
mod forged_logs;
mod gpu_programs;
mod loss;
mod loss_rig;
mod one_device;
mod reopening;
mod replaying;
mod switch;
mod tuning;
mod twins;

use millstream_conformance::{program, suite};
use support::OnCuda;

// With one queue: the suite on the CPU, and random programs here.
suite!(cuda: OnCuda; threads, driven);

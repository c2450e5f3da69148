//! The behaviour of the runtime, fact by fact, on every kind of device.
//!
//! A test's name is the fact; a comment names the invariant of `docs/design.md` that it guards.
#![allow(
    clippy::unwrap_used,
    reason = "a test says what it expects by unwrapping"
)]

mod support;
mod withdrawal;

mod answers;
mod dying;
mod failure;
mod faulty;
mod gpu_programs;
mod lifetime;
mod loss;
mod memory;
mod metrics;
mod ordering;
mod parameters;
mod profiled;
mod profiles;
mod program;
mod programs;
mod recordings;
mod reopening;
mod replaying;
mod requests;
mod room;
mod scheduling;
mod soft_limits;
mod stepping;
#[cfg(feature = "tune")]
mod tuning;
#[cfg(feature = "nvrtc-tests")]
mod twins;
mod untyped;

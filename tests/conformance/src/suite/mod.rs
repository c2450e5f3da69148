//! The tests, by theme.
//!
//! A new test is a function `pub(crate) fn subject_condition_outcome(on: On)` in one of these modules, and its name in
//! `list`, with what it needs of a device (`[Threads, HeldKernels]`). A function that is not in the list is dead code,
//! which the lints refuse.

pub(crate) mod answers;
pub(crate) mod at_limit;
pub(crate) mod back_pressure;
pub(crate) mod callbacks;
pub(crate) mod collectives;
pub(crate) mod copies;
pub(crate) mod failure;
pub(crate) mod late_writes;
pub(crate) mod lifetime;
pub(crate) mod memory;
pub(crate) mod memory_pressure;
pub(crate) mod metrics;
pub(crate) mod ordering;
pub(crate) mod parameters;
pub(crate) mod profiled_programs;
pub(crate) mod profiles;
pub(crate) mod programs;
pub(crate) mod recordings;
pub(crate) mod replays;
pub(crate) mod requests;
pub(crate) mod scalar_parameters;
pub(crate) mod scheduling;
pub(crate) mod soft_limits;
pub(crate) mod stepping_in;
pub(crate) mod tensors;
pub(crate) mod untyped;
pub(crate) mod views;
pub(crate) mod when_ready;
pub(crate) mod withdrawal;

//! The tests, by theme.
//!
//! Each function `pub(crate) fn subject_condition_outcome(on: On)` of these modules is a test: the build script lists
//! them. The last line of its comment names what it needs of a device: `Needs: Threads, HeldKernels.`
//! ([`Need`](crate::Need)).

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

//! The facts, by theme.
//!
//! A new fact is a function `pub(crate) fn the_fact(on: On)` here, and its name in `list`, with what it needs of a device
//! (`[Threads, HeldKernels]`). A function that is not in the list is dead code, which the lints refuse.

pub(crate) mod answers;
pub(crate) mod awaited_room;
pub(crate) mod callbacks;
pub(crate) mod copies;
pub(crate) mod failure;
pub(crate) mod lifetime;
pub(crate) mod memory;
pub(crate) mod metrics;
pub(crate) mod ordering;
pub(crate) mod parameters;
pub(crate) mod profiled;
pub(crate) mod profiles;
pub(crate) mod programs;
pub(crate) mod recordings;
pub(crate) mod replays;
pub(crate) mod requests;
pub(crate) mod room;
pub(crate) mod scheduling;
pub(crate) mod soft_limits;
pub(crate) mod stepping;
pub(crate) mod untyped;
pub(crate) mod views;
pub(crate) mod withdrawal;

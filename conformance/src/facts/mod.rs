//! The facts, by theme. `list` has their names; a fact that stands in no list is dead code.

pub(crate) mod answers;
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
pub(crate) mod requests;
pub(crate) mod room;
pub(crate) mod scheduling;
pub(crate) mod soft_limits;
pub(crate) mod stepping;
pub(crate) mod untyped;
pub(crate) mod withdrawal;

//! The instruments: heap allocations, processor time and wake-ups, affinity, callgrind's requests.

pub(crate) mod allocations;
pub(crate) mod callgrind;
pub(crate) mod processor;

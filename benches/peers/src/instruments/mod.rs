//! The instruments: processor time and wake-ups, callgrind's requests.

pub(crate) mod callgrind;
pub(crate) mod processor;

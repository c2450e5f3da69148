//! Who must run before whom: access logs, clocks and points.
//!
//! A slice's [`AccessLog`](log::AccessLog) tells which earlier tasks conflict with a new one (I2);
//! a queue's [`QueueClock`](clock::QueueClock) tells which of them it is known to come after already (I3).

pub mod clock;
pub mod faults;
pub mod log;
pub mod points;
mod uses;

#[cfg(test)]
mod tests;

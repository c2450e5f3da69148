//! Hazards: which uses of some bytes must come in order. One relation, wherever it is asked.
//!
//! Two uses conflict where they share a byte and one of them writes it; the later one comes after the earlier one. A server asks
//! that of every task that it admits, and of memory that is used again; the [plan](crate::backend::Plan) of a recording and a compiled schedule
//! ask it once, of all of their tasks.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`log`] | the access log of some bytes: which earlier uses a new one must come after (I2) |
//! | [`order`] | which tasks of a list come before which, by their logs |

pub mod log;
pub mod order;
mod uses;

#[cfg(test)]
mod tests;

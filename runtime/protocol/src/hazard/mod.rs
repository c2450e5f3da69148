//! Hazards: the relation that decides which uses of bytes must be ordered.
//!
//! Two uses *conflict* if they share a byte and at least one of them writes it. The later one then comes after the
//! earlier one (I2). "Earlier" is the order of the mailbox, of the recording, or of the schedule. Three callers use
//! the relation:
//!
//! - the server, for each task that it admits, and for memory that is reused: the points that still use the memory
//!   are the first entries of the new slice's log, so reuse is one more hazard (I4 follows from I2);
//! - the [plan](crate::backend::Plan) of a recording, once, over all recorded tasks;
//! - a compiled schedule, once, over all of its tasks.
//!
//! | module | contents |
//! | --- | --- |
//! | [`log`] | the access log of some bytes: the earlier uses that a new use must come after (I2) |
//! | [`order`] | the order of the tasks of a list, derived from their logs |
//! | `uses` | a set of uses: the latest per queue and per stream |
//!
//! # Example
//! Two streams use the bytes 0..8 of one slice. The log has one segment for each range of bytes with one history:
//!
//! ```text
//!   stream A          stream B          comes after    log afterwards
//! 1 write 0..8                          -              0..8 {write 1}
//! 2                   read  0..8        1              0..8 {write 1, read 2}
//! 3 read  0..4                          1              0..4 {write 1, reads 2 3}   4..8 {write 1, read 2}
//! 4                   write 0..4        1 2 3          0..4 {write 4}              4..8 {write 1, read 2}
//! 5 read  0..8                          1 4            0..4 {write 4, read 5}      4..8 {write 1, reads 2 5}
//! ```
//! Tasks 2 and 3 are not ordered: both only read. Task 4 replaces the history of the bytes 0..4. A later task that
//! comes after 4 comes after 1, 2 and 3 as well, because the order is transitive. The log reports task 1 to task 3
//! although both are of stream A: the caller drops conflicts within one stream or one queue, which are ordered
//! already.
//!
//! # Tests
//! `tests` compares a log with an oracle that remembers every use of every byte. The tests of `order` compare the
//! order with the transitive closure of the pairwise relation. The mutants `i2_*` in `tests/mutants/invariants` break
//! the log and the order; both tests find them. The server's random programs run with a race checker.

pub mod log;
pub mod order;
mod uses;

#[cfg(test)]
mod tests;

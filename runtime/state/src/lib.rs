//! What the actors of a device know: which task uses which bytes, who has which memory, which objects exist, and what
//! was measured.
//!
//! Each module is a plain state machine that owns a part of the device's state: it starts no thread, reads no clock, does
//! no I/O, and calls no other module but these of points. The server of the device actor calls them and passes the result of
//! one to the next.
//!
//! | module | what it has |
//! | --- | --- |
//! | [`hazards`] | slices and their access logs: which task must run before which |
//! | [`memory`] | pages and ranges: which slice has which bytes, and which streams wait for memory |
//! | [`objects`] | kernels, recordings and clients, and the links from slots of the shared table to objects |
//! | [`observers`] | counters, profiles, traces and sampled latencies |
//! | [`points`], [`pending`] | sets of points (queue + cursor), and items that wait for points, which all modules use |

pub mod hazards;
pub mod memory;
pub mod objects;
pub mod observers;
pub mod pending;
pub mod points;
#[cfg(test)]
mod steps;

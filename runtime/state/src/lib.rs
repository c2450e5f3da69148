//! The decisions of the device thread: what to do with each message of the clients.
//!
//! Everything here is a plain state machine: it starts no thread, reads no clock and does no I/O. The actors drive the
//! [`Server`](server::Server), and a backend executes its decisions.
//!
//! [`server`] is the conductor. The modules above it in the table each own a part of the device's state and do not call
//! each other: the server calls them and passes the result of one to the next.
//!
//! | module | what it has |
//! | --- | --- |
//! | `hazards` | slices and their access logs: which task must run before which |
//! | `scheduler` | streams and queues: the held tasks, and which stream issues next |
//! | [`memory`] | pages and ranges: which slice has which bytes, and which streams wait for memory |
//! | [`observers`] | counters, profiles, traces and sampled latencies |
//! | `device` | the backend, which only this module calls; the loss or close of the device; the submission log |
//! | `objects` | kernels, recordings and clients, and the links from slots of the shared table to objects |
//! | [`server`] | the conductor: how a task is admitted, issued and completed |
//! | [`points`], `pending` | sets of points (queue + cursor), and items that wait for points, which all modules use |

mod device;
mod hazards;
pub mod memory;
mod objects;
pub mod observers;
mod pending;
pub mod points;
mod scheduler;
pub mod server;
#[cfg(test)]
mod steps;

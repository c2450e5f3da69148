//! The decisions of the device thread: what to do with each message of the clients.
//!
//! Everything here is a plain state machine: it starts no thread, reads no clock and does no I/O. The actors drive the
//! [`Server`](server::Server), and a backend executes its decisions.
//!
//! Each module below owns a part of the device's state. The modules do not call each other; the server calls them and
//! passes the result of one to the next:
//!
//! | module | what it owns |
//! | --- | --- |
//! | `hazards` | slices and their access logs: which task must run before which |
//! | `scheduler` | streams and queues: the held tasks, and which stream issues next |
//! | [`memory`] | pages and ranges: which slice has which bytes, and which streams wait for memory |
//! | [`observers`] | counters, profiles, traces, sampled latencies and the submission log |
//! | `device` | the backend, which only this module calls, and whether the device is lost |
//! | `objects` | kernels, recordings and clients, and the links from slots of the shared table to objects |
//! | [`server`] | the conductor: how a task is admitted, issued and completed |
//! | [`points`] | sets of points (queue + cursor), which all modules use |

mod device;
mod hazards;
pub mod memory;
mod objects;
pub mod observers;
pub mod points;
mod scheduler;
pub mod server;

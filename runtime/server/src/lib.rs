//! Deciding: what the device's thread does with the messages of its clients.
//!
//! Everything here is a plain state machine: no thread is started, no clock is read and no I/O is done. The actors run
//! the [`Server`](server::Server), and a backend does what it decides.
//!
//! Machines own the state of a device. None of them calls another; the server conducts them:
//!
//! | module | what it owns |
//! | --- | --- |
//! | `hazards` | slices and who uses their bytes: which task must run before which |
//! | `scheduler` | streams and queues: what streams hold, and which of them goes next |
//! | [`memory`] | pages and the ranges in them: who has which bytes, and who waits for some |
//! | [`observers`] | what is noted of tasks, for those who look |
//! | `device` | the backend, which is called here alone, and whether the device is lost |
//! | `objects` | kernels, recordings and clients, and where the slots of the shared table lead |
//! | [`server`] | the conductor: how a task is admitted, issued and completed |
//! | [`points`] | what all of them speak of: the places on queues that something comes after |

mod device;
mod hazards;
pub mod memory;
mod objects;
pub mod observers;
pub mod points;
mod scheduler;
pub mod server;

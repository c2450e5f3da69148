//! Deciding: what the device's thread does with the messages of its clients.
//!
//! Everything here is a plain state machine: no thread is started, no clock is read and no I/O is done. The actors run
//! the [`Server`](server::Server), and a backend does what it decides.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`server`] | what conducts the others: how a task is admitted, issued and completed |
//! | [`hazard`] | who must run before whom |
//! | [`memory`] | who has which bytes |
//! | `scheduler` | what streams hold, and which of them goes next on which queue |
//! | `slice` | a slice as the device thread knows it |
//! | [`observers`] | what is noted of tasks, for those who look |
//! | [`planted`] | bugs that the swarm must find |

pub mod hazard;
pub mod memory;
pub mod observers;
pub mod planted;
mod scheduler;
pub mod server;
mod slice;

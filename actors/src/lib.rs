//! Execution. A device actor owns the context and serves the messages of a
//! [`ComputeChannel`](millstream_protocol::ComputeChannel), a stream actor for each logical stream batches its
//! tasks, and a GC actor waits for events before it drops values.
//!
//! ```text
//!  any thread        device thread                                         gc thread          host threads
//!  client ─mailbox─► DeviceActor ─► Server ─► StreamActor ─► backend       GcActor ◄─handover HostThreads
//!                        ▲  ▲         │                        │ timelines   │ drops values   │ user code
//!                        │  └─────────│────────── gate ◄───────┴─────────────┘                │
//!                        └────────────│────────── control ◄──────────────────────────────────-┘
//!                                     └─► hazards, memory, objects, observers (`runtime/state`)
//! ```
//!
//! | file | contents |
//! | --- | --- |
//! | `device_actor` | one turn of the device, whichever thread takes it |
//! | `stream_actor` | a logical stream and the tasks that it holds |
//! | `gc_actor` | waits for points, then drops values |
//! | [`server`] | what the device actor does with a message: how a task is admitted, issued and completed |
//! | `scheduler` | which stream issues next on which queue |
//! | `executor` | the device actor behind one door, the threads that take its turns, and the channel to it |
//! | `device`, `opening` | [`Device`]: the value that owns the lifetime; opening and closing |
//! | `epoch` | assembles the parts of an opened device, with threads or without |
//! | `reopen` | the next epoch of a lost device |
//! | `driver` | [`Driver`]: runs a driven device |
//! | `step` | the ends of tasks that begin at once, inside and outside of steps |
//! | `effects` | carries out the effects of the server |
//! | `host` | threads for user code |
//! | `tuning` | the clock, file store and thread of tuning; with the feature `tune` |
//!
//! `server`, `scheduler` and `stream_actor` are plain state machines: they start no thread, read no clock and do no I/O.
//! Nothing polls while idle (I11).

mod control;
mod device;
mod device_actor;
mod driver;
mod effects;
mod epoch;
mod executor;
mod gc_actor;
mod host;
mod opening;
mod reopen;
mod scheduler;
pub mod server;
mod step;
#[cfg(test)]
mod steps;
mod stream_actor;
#[cfg(feature = "tune")]
pub mod tuning;

pub use device::Device;
pub use driver::Driver;

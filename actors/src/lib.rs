//! The threads around the server's decisions: a device actor owns the context and serves the messages of a
//! [`ComputeChannel`](millstream_protocol::channel::ComputeChannel), a stream actor of the server batches the tasks of each
//! logical stream, and a GC actor waits for events before it drops values.
//!
//! ```text
//!  any thread        device thread                              gc thread          host threads
//!  client ─mailbox─► DeviceActor ─► Server ─► backend queues    Gc ◄─hand-over──   HostThreads
//!                        ▲  ▲                      │ timelines  │ drops values     │ user code
//!                        │  └──────── gate ◄───────┴────────────┘                  │
//!                        └───────────────── control ◄─────────────────────────────-┘
//! ```
//!
//! | file | contents |
//! | --- | --- |
//! | `device`, `opening` | [`Device`]: the value that owns the lifetime; opening and closing |
//! | `epoch` | assembles the parts of an opened device, with threads or without |
//! | `reopen` | the next epoch of a lost device |
//! | `device_actor` | one turn of the device, whichever thread takes it |
//! | `executor` | the device actor behind one door, the threads that take its turns, and the channel to it |
//! | `driver` | [`Driver`]: runs a driven device |
//! | `step` | the ends of tasks that begin at once, inside and outside of steps |
//! | `effects` | carries out the effects of the server |
//! | `gc` | the GC actor: waits for points, then drops values |
//! | `host` | threads for user code |
//! | `tuning` | the clock, file store and thread of tuning; with the feature `tune` |
//! No scheduling decision is made here, and nothing polls while idle (I11).

mod control;
mod device;
mod device_actor;
mod driver;
mod effects;
mod epoch;
mod executor;
mod gc;
mod host;
mod opening;
mod reopen;
mod step;
#[cfg(feature = "tune")]
pub mod tuning;

pub use device::Device;
pub use driver::Driver;

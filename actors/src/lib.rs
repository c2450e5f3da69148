//! The threads around the server's decisions.
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
//! | `actor` | one turn of the device, the same for both kinds of channel |
//! | `mailbox` | the channel and the thread of a device with threads |
//! | `shared_actor` | the actor of a device with threads, which its thread runs, or a caller that steps in |
//! | `step` | the ends of tasks that begin at once, inside and outside of steps |
//! | `driven` | the channel and the [`Driver`] of a driven device |
//! | `effects` | carries out the effects of a device thread |
//! | `gc` | waits for points, then drops values |
//! | `host` | threads for user code |
//! | `tuning` | the clock, file store and thread of tuning; with the feature `tune` |
//! No scheduling decision is made here, and nothing polls while idle (I11).

mod actor;
mod control;
mod device;
mod driven;
mod effects;
mod epoch;
mod gc;
mod host;
mod mailbox;
mod opening;
mod reopen;
mod shared_actor;
mod step;
#[cfg(feature = "tune")]
pub mod tuning;

pub use device::Device;
pub use driven::Driver;

//! Running: the threads around the server's decisions.
//!
//! ```text
//!  any thread        device thread                              gc thread          host threads
//!  client ─mailbox─► DeviceActor ─► Server ─► backend queues    Gc ◄─hand-over──   HostThreads
//!                        ▲  ▲                      │ timelines  │ drops values     │ user code
//!                        │  └──────── gate ◄───────┴────────────┘                  │
//!                        └───────────────── control ◄─────────────────────────────-┘
//! ```
//!
//! | file | what it is |
//! | --- | --- |
//! | `device`, `opening` | [`Device`]: the value that owns the lifetime, closing; opening |
//! | `epoch` | the parts of an opened device, put together with threads or without |
//! | `reopen` | a lost device's next epoch |
//! | `actor` | one turn of the device, the same for both kinds of channel |
//! | `mailbox` | the channel and the thread of a device that runs by itself |
//! | `station` | who turns a device that runs by itself: its thread, or a caller that steps in |
//! | `driven` | the channel and the [`Driver`] of a device that its owner runs |
//! | `effects` | where the effects of a device thread go |
//! | `gc` | what waits for points before it drops values |
//! | `host` | threads for user code |
//! | `tuning` | what tuning needs of the system; with the feature `tune` |
//!
//! Nothing here decides anything about tasks; and nothing polls while idle (I11).

mod actor;
mod device;
mod driven;
mod effects;
mod epoch;
mod gc;
mod host;
mod mailbox;
mod opening;
mod reopen;
mod station;
#[cfg(feature = "tune")]
pub mod tuning;

pub use device::Device;
pub use driven::Driver;

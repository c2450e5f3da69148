//! The CPU as a millstream device: queues that really overlap, and native kernels.
//!
//! ```text
//!  device thread             queue worker, one per queue            cube team, shared by all queues
//!  CpuDevice --Entry--> ring -> Runner: settle, run, publish --job--> members take cubes by a counter
//! ```
//! | module | contents |
//! | --- | --- |
//! | `options` | [`Cpu`]: the options |
//! | `device` | opening; [`CpuDevice`]: the [`Backend`](millstream_protocol::Backend), on the device thread |
//! | `properties` | the properties of the device |
//! | `pages` | the memory: pages, and how bindings resolve to pointers |
//! | `entry` | one task in a queue |
//! | `queues` | the feeds of all queues, and the workers that still have to be woken |
//! | `executor` | which thread runs a queue: its worker, or a thread that steps in |
//! | `worker`, `shared` | the thread of a queue, and queues without threads, for driven devices; the state that all workers share |
//! | `runner` | runs one task, from its inputs' poison to its published cursor |
//! | `kernel` | compiled kernels, and one launch |
//! | `team` | the threads that share the cubes of launches |
//! | `trace` | when tasks ran |
//!
//! # Invariants
//! 1. A task touches only bytes of its bindings; every view lies in one page (checked when it is queued).
//! 2. The tasks of a queue run one after the other, each completely: its inputs' poison is looked up, it runs, its
//!    outputs are settled, everything it owns is dropped, and then its cursor is published.
//! 3. The worker waits for other queues; the device thread never waits.
//! 4. In the steady state a launch neither allocates nor frees, on either side (I9).
//! 5. All threads of an idle device are parked (I11); a driven device has no thread.

mod device;
mod entry;
mod executor;
mod kernel;
mod options;
mod pages;
mod properties;
mod queues;
mod runner;
mod shared;
mod team;
mod trace;
mod worker;

pub use device::CpuDevice;
/// The resources that a custom task and a guard receive.
pub use millstream_host::HostResources as CpuResources;
pub use millstream_host::{Elements, ElementsMut, ResourceError};
pub use options::Cpu;

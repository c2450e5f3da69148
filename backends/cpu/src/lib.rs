//! The CPU as a millstream device: queues that truly overlap and native kernels.
//!
//! ```text
//!  device thread             queue worker, one per queue            cube team, shared by all queues
//!  CpuDevice --Entry--> ring -> Runner: settle, run, publish --job--> members take cubes by a counter
//! ```
//! | module | what it is |
//! | --- | --- |
//! | `options`, `settings` | [`Cpu`]: what can be chosen, and opening; the same, checked |
//! | `device` | [`CpuDevice`]: the [`Backend`](millstream_protocol::backend::Backend), on the device thread |
//! | `properties` | what the device says of itself |
//! | `pages` | the memory: pages and how bindings resolve to pointers |
//! | `entry` | one task as it lies in a queue |
//! | `queue` | the two ends of a queue: a ring, and an overflow that is never full |
//! | `queues` | what goes into which queue, and which workers have still to be woken |
//! | `post` | who runs a queue at a moment: its worker, or a thread that steps in |
//! | `worker`, `crew` | the thread of a queue; what all of them share |
//! | `drive` | queues without threads, for driven devices |
//! | `runner` | one task from its inputs' poison to its published cursor |
//! | `copies` | copies and fills, dense and strided |
//! | `kernel` | compiled kernels, and one launch of one |
//! | `team` | the threads that share the cubes of launches |
//! | `trace` | when tasks ran |
//!
//! Invariants
//! 1. A task touches only bytes of its bindings; every view lies in one page (checked when queued).
//! 2. On a queue, task after task runs whole: poison of the inputs is looked up, the task runs, the
//!    outputs are settled, everything that it owns is dropped, and then its cursor is published.
//! 3. Waits for other queues happen on the worker; the device thread never waits.
//! 4. A launch neither allocates nor frees in the steady state, on either side (I9).
//! 5. An idle device has every thread parked (I11); a driven one has no thread.

mod copies;
mod device;
mod drive;
mod entry;
mod executor;
mod kernel;
mod options;
mod pages;
mod properties;
mod queue;
mod queues;
mod runner;
mod settings;
mod shared;
mod team;
mod trace;
mod worker;

pub use device::CpuDevice;
/// What a custom task and a guard are given.
pub use millstream_host::HostResources as CpuResources;
pub use millstream_host::ResourceError;
pub use options::Cpu;

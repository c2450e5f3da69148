//! Several devices as one program: copies and collectives between devices are tasks of streams.
//!
//! A collective is ordered on each device by the data that it touches, like any other task: after the kernels that write
//! its buffers, and before those that read them. No caller waits between a kernel and a collective. If an input is
//! poisoned, every output is.
//!
//! ```
//! use millstream::{Cpu, Device};
//! use millstream_cluster::{Fleet, Reduction};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let fleet = Fleet::new([Device::open(Cpu::default())?, Device::open(Cpu::default())?])?;
//! let all = fleet.group();
//! let (on_0, on_1) = (all.stream(0), all.stream(1));
//! let (a, b) = (on_0.create(&[1.0_f32, 2.0])?, on_1.create(&[10.0_f32, 20.0])?);
//! all.all_reduce(Reduction::Sum, &[&a, &b])?;
//! assert_eq!(on_0.read(&a).wait()?, [11.0, 22.0]);
//! assert_eq!(on_1.read(&b).wait()?, [11.0, 22.0]);
//! # Ok(())
//! # }
//! ```
//!
//! # Order
//!
//! A fleet admits its collectives in one order, the same on all of its devices: a call submits its part to every device
//! before the next call submits any. So two threads may call collectives of overlapping groups on the same data, in any
//! order, and no two collectives wait for each other. A send and its receive are two calls: see [`Group::send`].
//!
//! # Bytes moved
//!
//! For `n` members and buffers of `B` bytes, the bytes that the calls read and write in memory that the host can access. No
//! algorithm can do with fewer, since each input must be read and each output written once:
//!
//! | call | reads | writes |
//! | --- | --- | --- |
//! | [`Fleet::copy`] | `B` | `B` |
//! | [`Group::broadcast`] to `n - 1` others | `B (n - 1)`, mostly from cache | `B (n - 1)` |
//! | [`Group::all_gather`] of `B` each | `B n^2`, mostly from cache | `B n^2` |
//! | [`Group::reduce_scatter`] of `B` each | `B n` | `B` |
//! | [`Group::all_reduce`] | `B n` | `B n` |
//!
//! Data of Vulkan devices, and of CUDA devices in a call with a member of another backend, passes through memory of the
//! host: each input is copied there first, and each output to its device last. Between CUDA devices of one process the
//! bytes stay on the GPUs and their links:
//!
//! | call | by | bytes on the links |
//! | --- | --- | --- |
//! | [`Fleet::copy`], [`Group::send`] and [`Group::receive`] | a copy of the driver | `B` |
//! | [`Group::broadcast`] and [`Group::all_gather`] by copies | copies of the driver | `B (n - 1)` and `B n (n - 1)` |
//! | all collectives by NCCL | NCCL | as NCCL chooses: on a ring `2 B (n - 1) / n` from each GPU for an all-reduce |
//! | [`Group::all_reduce`] and [`Group::reduce_scatter`] without NCCL | memory of the host | those of inputs and outputs |
//!
//! On a network the bytes of a CUDA device take the way that the network chooses: [`Network::takes_device_memory`].
//!
//! NCCL is used if the machine has it, the members are on different GPUs in their primary contexts, and NCCL has the
//! element type of a reduction: it has no `i16` and `u16`. [`Fleet::without_nccl`] disables it. **The paths of CUDA devices
//! have not run on hardware.** They link nothing: the driver and NCCL are loaded where they are there.

/// Runs the examples of the guide's page as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/cluster.md")]
mod guide {}

mod afterwards;
mod announcement;
mod call;
mod error;
mod fleet;
mod gpu;
mod group;
mod list;
mod movement;
mod network;
mod order;
mod pairs;
mod part;
mod reduction;
mod streaming;
mod unfinished;

pub use announcement::{Announcement, Operation};
pub use error::ClusterError;
pub use fleet::Fleet;
pub use gpu::{EnteredContext, StagedCopy, Staging};
pub use group::Group;
pub use movement::NetworkMemory;
pub use network::{Network, NetworkPart};
pub use part::NetworkAddresses;
pub use reduction::{Reducible, Reduction};

/// Locks a mutex. No code panics while one of the crate's is held, so a poisoned one is sound.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    let locked = mutex.lock();
    locked.unwrap_or_else(std::sync::PoisonError::into_inner)
}

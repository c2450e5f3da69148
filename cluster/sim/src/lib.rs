//! A simulated cluster: programs of `millstream-cluster` run with thousands of ranks in one process, in virtual time.
//!
//! Each rank has a simulated device, and the ranks are the members of groups, with the same calls as on a network of
//! real hosts. A [`Machine`] says what the cluster is made of. The time of each task and of each message is computed, so
//! a run shows where a program stops to scale, and why; equal runs give equal times. Data moves for real, and results can
//! be compared, unless the devices are opened [without data](millstream::sim::Sim::without_data).
//!
//! ```
//! use millstream::DeviceOptions;
//! use millstream::sim::Sim;
//! use millstream_cluster::Reduction;
//! use millstream_cluster_sim::{Machine, SimCluster};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let options = DeviceOptions::default();
//! let mut cluster = SimCluster::open(64, &Machine::default(), &options, |_| Sim::seed(1))?;
//! let mut sums = Vec::new();
//! for group in cluster.group()? {
//!     let stream = group.stream(0).clone();
//!     let value = stream.create(&[1.0_f32; 1000])?;
//!     group.all_reduce(Reduction::Sum, &[&value])?;
//!     sums.push(stream.read(&value));
//! }
//! let took_ns = cluster.settle()?;
//! assert_eq!(sums.pop().unwrap().wait()?[0], 64.0);
//! assert!(took_ns > 0);
//! # Ok(())
//! # }
//! ```
//!
//! # Time
//! The cluster handles the earliest step of any device or message first, so that messages take their links in the order
//! of time. What a message costs is described at [`Machine`]. Collectives are the rounds of the algorithms that MPI
//! libraries use: for few bytes recursive doubling and trees, for many bytes halving and doubling, and Bruck's gather. The
//! hosts' own time is not modelled, except for `wake_ns` and `message_ns`; nor is the way of a failure, which reaches the
//! other ranks at once.
//!
//! | module | contents |
//! | --- | --- |
//! | `cluster` | [`SimCluster`]: the ranks, and their run |
//! | `machine`, `fabric` | [`Machine`]: links; when a message arrives |
//! | `traffic`, `group` | what is on its way: all groups; the calls of one |
//! | `event`, `wires` | what happens at some time; time, links and events |
//! | `lane`, `call`, `rounds` | calls that follow each other; one of them; the messages of collectives |
//! | `network` | a rank as `millstream-cluster` sees it |
//! | `stall` | the report of calls that wait for ever |

/// Runs the example of the guide's page as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/scaling.md")]
mod guide {}

mod call;
mod cluster;
mod event;
mod fabric;
mod group;
mod lane;
mod machine;
mod network;
mod rounds;
mod stall;
mod traffic;
mod wires;

pub use cluster::{SimCluster, SimClusterError};
pub use fabric::Usage;
pub use machine::{Link, Machine};
pub use stall::{Stalled, Waiting};

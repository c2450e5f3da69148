//! A fake NCCL for tests, without a GPU.
//!
//! A collective is a few operations on the stream of each member, through the loaded driver, which must be the fake one:
//!
//! ```text
//!  stream of member 0:  record ─ wait for all ─ combine the inputs of all ─ record ─ wait for all ─ write the output
//!  stream of member 1:  record ─ wait for all ─ combine the inputs of all ─ record ─ wait for all ─ write the output
//! ```
//! So it begins once all members have reached it, and the fake driver checks the order of its accesses. It also writes a
//! word of memory that all communicators of a GPU share, as NCCL's kernels share the GPU: two collectives on a GPU
//! without an order between them, which may deadlock on hardware, are a race.
//!
//! Sums are computed from the last member to the first. This is another order than that of other code, so that a test
//! that depends on the order fails.
//!
//! Reported, and refused: a call outside of a group; one on a stream, or with memory, of another GPU than that of its
//! communicator; members that are missing or differ in call, count, type, reduction or root; destroyed communicators;
//! a communicator that is created or ended within a group.
//!
//! | module | contents |
//! | --- | --- |
//! | `calls` | the library's functions |
//! | `group` | the calls of a group, and their checks |
//! | `communicator` | communicators, and what the communicators of a GPU share |
//! | `job` | a collective in flight |
//! | `numbers` | the element types and reductions |
//! | `status` | the results of calls |
//! | `driver`, `loaded` | calls of the driver |
//! | `control` | [`Nccl`]: the controls for tests, and their state in the loaded library |
//!
//! Not modelled: several collectives of a communicator in one group, sends and receives, communicators of several processes,
//! the time that anything takes.

#![allow(
    non_snake_case,
    reason = "the library and its functions have NVIDIA's names"
)]

mod calls;
mod communicator;
mod control;
mod driver;
mod group;
mod job;
#[path = "../../fake/src/loaded.rs"]
mod loaded;
mod numbers;
mod status;

pub use control::Nccl;

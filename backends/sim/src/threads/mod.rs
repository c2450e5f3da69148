//! Functions of the IR ([`ssa`](millstream_ir::ssa)), thread by thread: slow, small enough to verify by reading, and as
//! hostile as a GPU may be.
//!
//! - **Order.** The threads of a cube run one after the other, each to the next statement at which all of them meet: a
//!   barrier or a reduction. The seed chooses the order of the threads each time, and the order of the cubes.
//! - **Memory.** Shared arrays hold other garbage in each cube.
//! - **Races.** Two accesses of different threads to one element race if at least one of them is a plain store, or one
//!   is plain and the other atomic, and no barrier of their cube is between them. [`races`] reports the first race of a
//!   launch, whatever the order was and whatever the values are.
//!
//! A race, an access out of bounds, or a barrier that only some threads reach ends the launch with a [`KernelMistake`],
//! which is the failure of the task, and one of the [`Findings`](crate::Findings).
//!
//! | module | contents |
//! | --- | --- |
//! | `code` | a function as a list of steps |
//! | `machine` | runs the steps of threads |
//! | `memory` | buffers and arrays |
//! | `races` | the last accesses to each element |
//! | `mistake` | what is reported |
//!
//! [`millstream_ir::scalar`] defines the operations on values.

mod code;
mod machine;
mod memory;
mod mistake;
mod races;

pub(crate) use code::Code;
pub(crate) use machine::{Launch, run};
pub use mistake::{AccessKind, KernelMistake, SourceLine, ThreadAccess};

//! The door to threads and atomics, and the primitives that millstream builds on it.
//!
//! Nothing here knows about devices. Every primitive is written against [`facade`], which is std in a
//! build and loom's or shuttle's types where these check it, so that each one is model checked (the models
//! live in `loom-tests`).
//!
//! | module | what it is |
//! | --- | --- |
//! | [`facade`] | atomics, `Arc`, `Mutex`, cells, threads, and how long to spin before parking |
//! | [`gate`] | one sleeper, many wakers |
//! | [`bell`] | many sleepers, many ringers |
//! | [`door`] | what its owner, or a thread that comes by, is inside of |
//! | [`mailbox`] | bounded ring, many producers, one consumer; messages live in the slots |
//! | [`overflow`] | a mailbox whose one sender never waits |
//! | [`flight`] | one does what several want, the others wait |
//! | [`reply`] | one value, one waiter; dropping either side is an answer |
//! | [`timeline`] | a queue's published progress |
//! | [`slots`] | counted slots, the free list, the dropped list |
//! | [`poison`] | failed byte ranges of a slice |
//! | [`ranges`] | byte ranges with values: what a poison cell keeps |
//! | [`credit`] | a bounded budget in flight, first come, first served |
//! | [`tokens`] | a fixed set of them: one thread takes, any gives back |
//! | [`team`] | threads that share the pieces of jobs |
//! | [`payload`] | what a panic of user code carries |
//! | [`channel`] | the control plane's channel |
//! | `wait` | whom to wake: a thread or a task |

pub mod bell;
pub mod channel;
pub mod credit;
pub mod door;
pub mod facade;
pub mod flight;
pub mod gate;
pub mod mailbox;
pub mod overflow;
pub mod payload;
pub mod poison;
pub mod ranges;
pub mod reply;
pub mod slots;
pub mod team;
pub mod timeline;
pub mod tokens;
mod wait;

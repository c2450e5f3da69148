//! The facade over threads and atomics, and millstream's synchronization primitives.
//!
//! Nothing here knows about devices. Every primitive uses the types of [`facade`]: std's in a
//! build, loom's or shuttle's under these checkers. So each primitive is model checked; the models
//! are in `loom-tests`.
//!
//! | module | contents |
//! | --- | --- |
//! | [`facade`] | atomics, `Arc`, `Mutex`, cells, threads, and the policy for spinning before parking |
//! | [`gate`] | parks one thread; any number of wakers |
//! | [`bell`] | parks any number of threads; any thread rings |
//! | [`deferred_wakes`] | users' wakers that a thread inside a device wakes once it has left |
//! | [`handoff_lock`] | a lock whose owner sleeps while another thread does its work (stepping in) |
//! | [`helped`] | an engine that its own thread runs, or a thread that waits for it |
//! | [`mailbox`] | bounded ring, many producers, one consumer; messages are built and used in the slots |
//! | [`line`](mod@line) | batches that a caller completes in place of the queue's thread |
//! | [`reply`] | a one-shot channel; dropping the sender is an answer |
//! | [`timeline`] | a queue's published progress |
//! | [`slots`] | a table of reference-counted slots, with deferred drops |
//! | [`index_stack`] | a stack of the free slots of a table |
//! | [`poison`] | poisoned byte ranges of a slice |
//! | [`ranges`] | byte ranges with values |
//! | [`credit`] | a bounded budget in flight, first come, first served |
//! | [`team`] | threads that share the pieces of jobs |
//! | [`payload`] | panic payloads and other values of user code that the runtime drops |
//! | [`channel`] | the control plane's channel |
//! | `wait` | a waiter: a thread or a task |

// Files that the unit tests share with the models name this crate.
#[cfg(test)]
extern crate self as millstream_sync;

pub mod bell;
pub mod channel;
pub mod credit;
pub mod deferred_wakes;
pub mod facade;
pub mod gate;
pub mod handoff_lock;
pub mod helped;
pub mod index_stack;
pub mod line;
pub mod mailbox;
pub mod payload;
pub mod poison;
pub mod ranges;
pub mod reply;
pub mod slots;
pub mod team;
pub mod timeline;
mod wait;

//! A task that a stream holds, with what it must come after.
//!
//! Invariants: `after` has points of other tasks only, `awaits` only held tasks with earlier mailbox positions, so the links
//! between tasks make no cycle; a task is issued only once no link is left (I1, I2). Blocks are reused: `Scheduler::put_block`
//! empties them (I9).
//!
//! `scheduler/tests.rs` checks the links; the server's random programs check the order that they make.

use millstream_protocol::{Op, Task};
use smallvec::SmallVec;

use millstream_state::objects::NO_OBJECT;
use millstream_state::points::Points;

/// A link whose task was issued: no stream has this key.
const ISSUED: (u32, u64) = (u32::MAX, 0);

/// A task that a stream holds, with its dependencies.
pub(crate) struct HeldTask {
    pub(crate) task: Task,
    /// Points on other queues that it must come after (I3).
    pub(crate) after: Points,
    /// Tasks of other streams, by stream and sequence, that it must come after and that are not issued. Each becomes a
    /// point of `after` when it is issued. Each link leads to an earlier mailbox position, so there is no cycle. The
    /// reverse of each is a [`Waiter`](super::Waiter) of the other stream, which has the index of the link: so
    /// links are not moved, and one that is removed leaves [`ISSUED`] until all behind it are removed. The last link is
    /// never [`ISSUED`].
    pub(crate) awaits: SmallVec<[(u32, u64); 1]>,
    /// The key of the kernel or recording that it names, or [`NO_OBJECT`].
    pub(crate) object: u32,
    /// Whether its sender took credit of the stream for it.
    pub(crate) paid: bool,
    /// The time of its admission, if its latency is sampled; else 0.
    pub(crate) admitted_ns: u64,
}

impl HeldTask {
    pub(crate) fn empty() -> Box<Self> {
        Box::new(Self {
            task: Task::new(None, Op::Taken),
            after: Points::new(),
            awaits: SmallVec::new(),
            object: NO_OBJECT,
            paid: true,
            admitted_ns: 0,
        })
    }

    /// Removes a link by its index: its task was issued.
    pub(crate) fn unlink(&mut self, link: u32) {
        self.awaits[link as usize] = ISSUED;
        while self.awaits.last() == Some(&ISSUED) {
            #[cfg(test)]
            crate::steps::count();
            self.awaits.pop();
        }
    }
}

//! The stream actor: a logical stream and the tasks that it holds, in order. A state machine on the device thread, so
//! thousands of them cost no thread.
//!
//! It decides whether its first task can be issued, how urgent that task is, and when credit goes back to callers. A stream
//! issues its tasks in their order (I1), so its state is that of its first held task:
//!
//! ```text
//!              hold                    next_turn               take_first, finish
//!  holds none ──────► waits for a turn ──────────► has the turn ─────────────────► holds none, or waits for a turn
//!       │                    ▲                         │
//!       │                    │ resume                  │ its first task cannot be issued
//!       ▼                    │                         ▼
//!  passes through      ┌─────┴───────────────────────────────────────────────────┐
//!  (lone_queue)        │ Parked::Memory      unpark: the wait list serves it     │
//!                      │ Parked::HostWaits   its dependencies have completed     │
//!                      │ Parked::HostRuns    the host function has ended         │
//!                      │ awaits is not empty the last awaited task is issued     │
//!                      └─────────────────────────────────────────────────────────┘
//! ```
//!
//! What others decide:
//!
//! | question | where |
//! | --- | --- |
//! | Which stream has the next turn, and how many tasks does it issue in it (`Interleave`, `Sequential`)? | `scheduler::turns` |
//! | Which queue does it issue to? | `scheduler::queue_assignment` |
//! | Which tasks of other streams come before a task? | `hazards` of `runtime/state`; `scheduler::dependencies` keeps the links |
//! | What does the device do for a task? | `server::issue` |

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use millstream_protocol::{ClientId, Cursor, Op, Point, Priority, QueueId, StreamId, Task};
use millstream_state::objects::NO_OBJECT;
use millstream_state::points::Points;
use millstream_sync::credit::Credit;
use smallvec::SmallVec;

/// The reason why the first held task of a stream cannot be issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parked {
    /// Not parked: the task can be issued, unless it awaits tasks of other streams.
    No,
    /// The task is a reservation that waits for memory.
    Memory,
    /// The task is a host function that waits until its dependencies have completed.
    HostWaits,
    /// The task is a host function that is running.
    HostRuns,
}

/// The maximum number of issued tasks whose credit is given back together.
const CREDIT_CHUNK_MAX: u64 = 32;

/// Returns the number of issued tasks whose credit is given back together, for a stream that may hold `limit` tasks.
pub(crate) fn credit_chunk(limit: u64) -> u64 {
    CREDIT_CHUNK_MAX.min(limit / 4)
}

/// A task of another stream that waits until one of this stream is issued.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Waiter {
    /// The sequence of this stream's task that must be issued first.
    pub(crate) sequence: u64,
    /// The stream that waits.
    pub(crate) stream: u32,
    /// The sequence of the task that waits.
    pub(crate) task: u64,
    /// The index of the link in `awaits` of that task.
    pub(crate) link: u32,
}

/// A logical stream.
pub(crate) struct StreamActor {
    pub(crate) id: StreamId,
    pub(crate) client: ClientId,
    /// The priority of its client.
    pub(crate) own_priority: Priority,
    /// The factor on the quantum of its turns.
    pub(crate) weight: usize,
    /// By priority: the greatest sequence of this stream that a stream of that priority waits for.
    pub(crate) inherited: [u64; Priority::COUNT],
    /// The name of its client, for traces.
    pub(crate) client_name: Arc<str>,
    /// Its number, for traces.
    pub(crate) number: u64,
    /// Credit for tasks that were accepted and are not issued. Callers wait for it.
    pub(crate) credit: Arc<Credit>,
    /// The queue that it is assigned to. It changes only while the stream is idle (I1).
    pub(crate) queue: QueueId,
    pub(crate) held: VecDeque<Box<HeldTask>>,
    /// The number of issued tasks. The first held task has the sequence after it.
    pub(crate) issued: u64,
    /// The number of issued tasks that no caller has sent: parts of an answer.
    pub(crate) unpaid: u64,
    /// The cursor of the last issued task.
    pub(crate) last: Cursor,
    pub(crate) parked: Parked,
    /// Whether it is in the turns of its queue.
    pub(crate) waits_for_turn: bool,
    /// The number of tasks that it issued in its last turn, if a full queue interrupted that turn; else 0.
    pub(crate) turn_issued: usize,
    /// Tasks of other streams, each of which waits until a held task of this stream is issued; ordered by that held
    /// task.
    pub(crate) waiters: BinaryHeap<Reverse<Waiter>>,
    /// The number of issued tasks whose credit was not given back yet.
    pub(crate) unreleased: u64,
    /// The number of issued tasks whose credit is given back together.
    pub(crate) credit_chunk: u64,
    /// The sequences of the tasks that profiles cover, by token. No heap while there are none.
    pub(crate) covers: BTreeMap<u64, Range<u64>>,
    /// Whether the last handle is gone.
    pub(crate) dropped: bool,
}

impl StreamActor {
    /// Returns the number of its callers' tasks that it has issued.
    pub(crate) fn issued(&self) -> u64 {
        self.issued - self.unpaid
    }

    /// Returns the number of tasks that it holds.
    pub(crate) fn holds(&self) -> usize {
        self.held.len()
    }

    /// Returns the point of the last issued task, if there is one.
    pub(crate) fn last_point(&self) -> Option<Point> {
        (self.last > 0).then(|| Point::new(self.queue, self.last))
    }

    /// Returns the sequence of the next admitted task.
    #[inline]
    pub(crate) fn next_sequence(&self) -> u64 {
        self.issued + self.held.len() as u64 + 1
    }

    /// Returns the priority of its first held task: that of its client, or of the most urgent stream that waits for it.
    #[inline]
    pub(crate) fn priority(&self) -> Priority {
        let inherited = Priority::ALL.into_iter().rev();
        inherited
            .take_while(|priority| *priority > self.own_priority)
            .find(|priority| self.inherited[*priority as usize] > self.issued)
            .unwrap_or(self.own_priority)
    }

    /// Records that a stream of this priority waits for the tasks up to `sequence`. Returns the held tasks that had a
    /// lower priority until now, as a range of `held`; empty if there are none.
    pub(crate) fn inherit(&mut self, priority: Priority, sequence: u64) -> Range<usize> {
        if self.own_priority >= priority {
            return 0..0;
        }
        let as_urgent = self.inherited[priority as usize..].iter().copied();
        let known = as_urgent.fold(self.issued, u64::max);
        if known >= sequence {
            return 0..0;
        }
        self.inherited[priority as usize] = sequence;
        let index = |sequence: u64| ((sequence - self.issued) as usize).min(self.held.len());
        index(known)..index(sequence)
    }

    /// Returns the index in `held` of the task with this sequence, unless it was issued.
    #[inline]
    pub(crate) fn index_of(&self, sequence: u64) -> Option<usize> {
        usize::try_from(sequence.checked_sub(self.issued + 1)?).ok()
    }

    /// Returns the held task with this sequence.
    #[inline]
    pub(crate) fn held_mut(&mut self, sequence: u64) -> Option<&mut HeldTask> {
        let index = self.index_of(sequence)?;
        self.held.get_mut(index).map(|held| &mut **held)
    }

    /// Counts an issued task, and gives credit back if a chunk is complete. The stream keeps back less than a quarter
    /// of the limit, so callers still find room.
    #[inline(always)]
    pub(crate) fn release_credit(&mut self) {
        self.unreleased += 1;
        if self.unreleased >= self.credit_chunk {
            self.give_credit_back();
        }
    }

    #[cold]
    fn give_credit_back(&mut self) {
        self.credit.release(self.unreleased);
        self.unreleased = 0;
    }

    /// Returns `true` if the server can try to issue its first held task: the stream is not parked, and the task awaits
    /// no task of another stream.
    #[inline]
    pub(crate) fn can_issue(&self) -> bool {
        self.parked == Parked::No && self.held.front().is_some_and(|held| held.awaits.is_empty())
    }
}

// A task that a stream holds, with what it must come after.
//
// Invariants: `after` has points of other tasks only, `awaits` only held tasks with earlier mailbox positions, so the links
// between tasks make no cycle; a task is issued only once no link is left (I1, I2). Blocks are reused: `Scheduler::put_block`
// empties them (I9).
//
// `scheduler/tests.rs` checks the links; the server's random programs check the order that they make.

/// A link whose task was issued: no stream has this key.
const ISSUED: (u32, u64) = (u32::MAX, 0);

/// A task that a stream holds, with its dependencies.
pub(crate) struct HeldTask {
    pub(crate) task: Task,
    /// Points on other queues that it must come after (I3).
    pub(crate) after: Points,
    /// Tasks of other streams, by stream and sequence, that it must come after and that are not issued. Each becomes a
    /// point of `after` when it is issued. Each link leads to an earlier mailbox position, so there is no cycle. The
    /// reverse of each is a [`Waiter`] of the other stream, which has the index of the link: so
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

//! A logical stream: the tasks that it holds, in order, and why its first one cannot go yet.
//!
//! Streams are state machines on the device thread; thousands of them cost no thread.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use millstream_protocol::id::{ClientId, Cursor, Point, QueueId, StreamId};
use millstream_protocol::priority::Priority;
use millstream_sync::credit::Credit;

use super::task::HeldTask;

/// Why the first held task of a stream cannot go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Parked {
    /// It can.
    No,
    /// It waits for memory.
    Memory,
    /// It waits for its predecessors to complete, then runs on the host.
    HostTurn,
    /// It runs on the host.
    HostRuns,
}

/// Most issued tasks whose credit is given back together.
const CREDIT_CHUNK_MAX: u64 = 32;

/// Issued tasks whose credit is given back together, of a stream that may hold `limit`.
pub(super) fn credit_chunk(limit: u64) -> u64 {
    CREDIT_CHUNK_MAX.min(limit / 4)
}

/// A task of another stream that waits for one of ours to be issued.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Waiter {
    /// Our task.
    pub(super) sequence: u64,
    /// The waiting stream.
    pub(super) stream: u32,
    /// Its task.
    pub(super) task: u64,
}

/// A profile's token covers these tasks of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Covers {
    pub(super) token: u64,
    /// The first of its tasks, and the first that is not its own any more.
    pub(super) from: u64,
    pub(super) until: u64,
}

/// A logical stream.
pub(crate) struct StreamActor {
    pub(super) id: StreamId,
    pub(super) client: ClientId,
    /// How urgent its client's work is.
    pub(super) own_priority: Priority,
    /// How many times as many tasks as a stream of weight 1 it may issue in one turn.
    pub(super) weight: usize,
    /// By priority: a stream of that priority waits for our tasks up to this sequence.
    pub(super) inherited: [u64; Priority::COUNT],
    /// What its client is called, for timelines.
    pub(super) client_name: Arc<str>,
    /// Its number, for timelines.
    pub(super) number: u64,
    /// Tasks accepted and not yet issued; callers wait for it.
    pub(super) credit: Arc<Credit>,
    /// Where it sits. Changes only when idle.
    pub(super) queue: QueueId,
    pub(super) held: VecDeque<Box<HeldTask>>,
    /// Tasks issued so far; the first held task has the sequence after it.
    pub(super) issued: u64,
    /// Cursor of the last task that was issued.
    pub(super) last: Cursor,
    pub(super) parked: Parked,
    /// Is it in its queue's turn?
    pub(super) in_turn: bool,
    /// Tasks issued in its present go, which goes on where a full queue cut it short.
    pub(super) gone: usize,
    /// Who waits for a held task to be issued, the earliest task first.
    pub(super) waiters: BinaryHeap<Reverse<Waiter>>,
    /// Credit of issued tasks that is not given back yet.
    pub(super) unreleased: u64,
    /// Issued tasks whose credit is given back together.
    pub(super) credit_chunk: u64,
    /// The profiles that it is in, by token. Without the heap while there are none.
    pub(super) covered: Vec<Covers>,
    /// The last handle is gone.
    pub(super) dropped: bool,
}

impl StreamActor {
    /// Its id.
    pub(crate) fn id(&self) -> StreamId {
        self.id
    }

    /// The client that made it.
    pub(crate) fn client(&self) -> ClientId {
        self.client
    }

    /// What its client is called, for timelines.
    pub(crate) fn client_name(&self) -> &Arc<str> {
        &self.client_name
    }

    /// Its number, for timelines.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Where it sits.
    pub(crate) fn queue(&self) -> QueueId {
        self.queue
    }

    /// Tasks that it has issued.
    pub(crate) fn issued(&self) -> u64 {
        self.issued
    }

    /// Tasks that it holds.
    pub(crate) fn holds(&self) -> usize {
        self.held.len()
    }

    /// The last task that was issued, if any.
    pub(super) fn last_point(&self) -> Option<Point> {
        (self.last > 0).then(|| Point::new(self.queue, self.last))
    }

    /// The sequence that the next admitted task gets.
    #[inline]
    pub(super) fn next_sequence(&self) -> u64 {
        self.issued + self.held.len() as u64 + 1
    }

    /// How urgent its first held task is: the priority of its client, or of the most urgent stream that waits for it.
    #[inline]
    pub(super) fn priority(&self) -> Priority {
        let inherited = Priority::ALL.into_iter().rev();
        inherited
            .take_while(|priority| *priority > self.own_priority)
            .find(|priority| self.inherited[*priority as usize] > self.issued)
            .unwrap_or(self.own_priority)
    }

    /// A stream of this priority waits for the tasks up to `sequence`. Returns the held ones that were less urgent until now,
    /// as a range of `held`; empty if there are none.
    pub(super) fn inherit(&mut self, priority: Priority, sequence: u64) -> Range<usize> {
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

    /// Where in `held` the task with this sequence is, unless it was issued.
    #[inline]
    pub(super) fn index_of(&self, sequence: u64) -> Option<usize> {
        usize::try_from(sequence.checked_sub(self.issued + 1)?).ok()
    }

    /// The held task with this sequence.
    #[inline]
    pub(super) fn held_mut(&mut self, sequence: u64) -> Option<&mut HeldTask> {
        let index = self.index_of(sequence)?;
        self.held.get_mut(index).map(|held| &mut **held)
    }

    /// One task more was issued: gives credit back, some tasks at a time. What is kept back is less
    /// than a quarter of the limit, so that callers still find room.
    #[inline(always)]
    pub(super) fn release_credit(&mut self) {
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

    /// Can its first held task be tried?
    #[inline]
    pub(super) fn can_go(&self) -> bool {
        self.parked == Parked::No && self.held.front().is_some_and(|held| held.awaits.is_empty())
    }
}

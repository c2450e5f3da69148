//! What streams hold: how a task enters its stream, and how it leaves it.

use millstream_protocol::id::{Cursor, Point};

use super::Scheduler;
use super::task::HeldTask;

/// Blocks kept for reuse: enough for every queue to be full, beyond it memory goes back.
const SPARE_BLOCKS_MAX: usize = 4_096;

/// What a task leaves when it has been issued.
pub(crate) struct Finished {
    /// Its place in its stream.
    pub(crate) sequence: u64,
    /// Tasks of other streams wait for it.
    pub(crate) is_waited_for: bool,
    /// The last handle of its stream is gone.
    pub(crate) stream_dropped: bool,
}

impl Scheduler {
    /// A block for a task that is to be held.
    #[inline]
    pub(crate) fn take_block(&mut self) -> Box<HeldTask> {
        self.spare.pop().unwrap_or_else(HeldTask::empty)
    }

    /// A block of a task that was issued, without its contents.
    #[inline]
    pub(crate) fn put_block(&mut self, block: Box<HeldTask>) {
        if self.spare.len() < SPARE_BLOCKS_MAX {
            self.spare.push(block);
        }
    }

    /// A stream holds one task more. How many it holds now, and the sequence of this one.
    #[inline]
    pub(crate) fn hold(&mut self, stream: u32, held: Box<HeldTask>) -> (usize, u64) {
        let actor = &mut self.streams[stream as usize];
        actor.held.push_back(held);
        self.queues[actor.queue.index()].held += 1;
        self.held += 1;
        let holds = actor.held.len();
        let sequence = actor.issued + holds as u64;
        self.join_turn(stream);
        (holds, sequence)
    }

    /// The first task of a stream has left it, to end at `last`.
    #[inline]
    pub(crate) fn finish(&mut self, stream: u32, last: Point, paid: bool) -> Finished {
        self.held -= 1;
        self.queues[last.queue.index()].held -= 1;
        let actor = &mut self.streams[stream as usize];
        actor.issued += 1;
        actor.last = actor.last.max(last.cursor);
        if paid {
            actor.release_credit();
        }
        Finished {
            sequence: actor.issued,
            is_waited_for: !actor.waiters.is_empty(),
            stream_dropped: actor.dropped,
        }
    }

    /// A task of a stream that holds none was issued at once, to end at `last`.
    #[inline(always)]
    pub(crate) fn passed_through(&mut self, stream: u32, last: Cursor, paid: bool) {
        let actor = &mut self.streams[stream as usize];
        actor.issued += 1;
        actor.last = last;
        if paid {
            actor.release_credit();
        }
    }
}

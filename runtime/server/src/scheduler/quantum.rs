//! Goes: when a stream is in its queue's turn, and how many tasks it may issue then.

use millstream_protocol::id::QueueId;
use millstream_protocol::message::Op;
use millstream_protocol::options::Strategy;

use super::Scheduler;

/// A go of a stream on its queue.
pub(crate) struct Turn {
    pub(crate) stream: u32,
    /// Tasks that it may issue.
    pub(crate) quantum: usize,
    /// Those of them that it has issued already: its go was cut short by a full queue.
    pub(crate) issued: usize,
}

impl Scheduler {
    /// A stream whose first task can be tried is in its queue's turn.
    #[inline]
    pub(super) fn join_turns(&mut self, stream: u32) {
        let actor = &mut self.streams[stream as usize];
        if !actor.waits_for_turn && actor.can_issue() {
            actor.waits_for_turn = true;
            actor.turn_issued = 0;
            let priority = actor.priority();
            self.queues[actor.queue.index()]
                .turns
                .join(stream, priority);
        }
    }

    /// The same for a stream that may be gone with its last task.
    #[inline]
    pub(crate) fn resume(&mut self, stream: u32) {
        if self.contains(stream) {
            self.join_turns(stream);
        }
    }

    /// Does a stream wait for its turn on this queue?
    #[inline]
    pub(crate) fn has_turns(&self, queue: QueueId) -> bool {
        !self.queues[queue.index()].turns.is_empty()
    }

    /// The next go on a queue.
    pub(crate) fn next_turn(&mut self, queue: QueueId) -> Option<Turn> {
        let stream = self.queues[queue.index()].turns.next()?;
        let quantum = match self.strategy {
            Strategy::Interleave => 1,
            Strategy::Sequential => self.batch_size,
        };
        let actor = &mut self.streams[stream as usize];
        actor.waits_for_turn = false;
        Some(Turn {
            stream,
            quantum: quantum.saturating_mul(actor.weight),
            issued: std::mem::take(&mut actor.turn_issued),
        })
    }

    /// Is the first held task of a stream work, and not only a place in the order?
    #[inline]
    pub(crate) fn first_does_work(&self, stream: u32) -> bool {
        let first = self.first_held(stream);
        !first
            .is_some_and(|held| matches!(held.task.op, Op::Answer(_) | Op::Mark | Op::DropAfter(_)))
    }

    /// The queue is full: the go is the next one still. A stream has only one place in the turn; what it did in software may have
    /// given it another.
    pub(crate) fn put_back(&mut self, queue: QueueId, stream: u32, issued: usize) {
        let turns = &mut self.queues[queue.index()].turns;
        let actor = &mut self.streams[stream as usize];
        actor.turn_issued = issued;
        if std::mem::replace(&mut actor.waits_for_turn, true) {
            turns.leave(stream);
        }
        turns.put_back(stream, actor.priority());
    }
}

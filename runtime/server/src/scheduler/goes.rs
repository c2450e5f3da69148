//! Goes: when a stream is in its queue's turn, and how many tasks it may issue then.

use millstream_protocol::id::QueueId;
use millstream_protocol::message::Op;
use millstream_protocol::options::Strategy;

use super::Scheduler;

/// A go of a stream on its queue.
pub(crate) struct Go {
    pub(crate) stream: u32,
    /// Tasks that it may issue.
    pub(crate) quantum: usize,
    /// Those of them that it has issued already: its go was cut short by a full queue.
    pub(crate) gone: usize,
}

impl Scheduler {
    /// A stream whose first task can be tried is in its queue's turn.
    #[inline]
    pub(super) fn join_turn(&mut self, stream: u32) {
        let actor = &mut self.streams[stream as usize];
        if !actor.in_turn && actor.can_go() {
            actor.in_turn = true;
            actor.gone = 0;
            let priority = actor.priority();
            self.queues[actor.queue.index()].turn.join(stream, priority);
        }
    }

    /// The same for a stream that may be gone with its last task.
    #[inline]
    pub(crate) fn resume(&mut self, stream: u32) {
        if self.contains(stream) {
            self.join_turn(stream);
        }
    }

    /// Does a stream wait for its turn on this queue?
    #[inline]
    pub(crate) fn has_turns(&self, queue: QueueId) -> bool {
        !self.queues[queue.index()].turn.is_empty()
    }

    /// The next go on a queue.
    pub(crate) fn next_go(&mut self, queue: QueueId) -> Option<Go> {
        let stream = self.queues[queue.index()].turn.next()?;
        let quantum = match self.strategy {
            Strategy::Interleave => 1,
            Strategy::Sequential => self.batch,
        };
        let actor = &mut self.streams[stream as usize];
        actor.in_turn = false;
        Some(Go {
            stream,
            quantum: quantum.saturating_mul(actor.weight),
            gone: std::mem::take(&mut actor.gone),
        })
    }

    /// Is the first held task of a stream work, and not only a place in the order?
    #[inline]
    pub(crate) fn first_takes_time(&self, stream: u32) -> bool {
        let first = self.first_held(stream);
        !first
            .is_some_and(|held| matches!(held.task.op, Op::Answer(_) | Op::Mark | Op::DropAfter(_)))
    }

    /// The queue is full: the go is the next one still. A stream has only one place in the turn; what it did in software may have
    /// given it another.
    pub(crate) fn put_back(&mut self, queue: QueueId, stream: u32, gone: usize) {
        let turn = &mut self.queues[queue.index()].turn;
        let actor = &mut self.streams[stream as usize];
        actor.gone = gone;
        if std::mem::replace(&mut actor.in_turn, true) {
            turn.leave(stream);
        }
        turn.put_back(stream, actor.priority());
    }
}

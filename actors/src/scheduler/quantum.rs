//! Turns of streams: decides when a stream joins the turns of its queue, and how many tasks it may issue in one turn.

use millstream_protocol::{Op, QueueId, Strategy};

use super::Scheduler;

/// A turn of a stream on its queue.
pub(crate) struct Turn {
    pub(crate) stream: u32,
    /// The number of tasks that the stream may issue in this turn.
    pub(crate) quantum: usize,
    /// The number of tasks that the stream issued in this turn before a full queue interrupted it; 0 if none did.
    pub(crate) issued: usize,
}

impl Scheduler {
    /// Adds a stream to the turns of its queue if the server can try to issue the stream's first held task. Does
    /// nothing if the stream is in the turns already.
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

    /// Same as [`Scheduler::join_turns`]. Does nothing if the stream was removed, which may happen with its last task.
    #[inline]
    pub(crate) fn resume(&mut self, stream: u32) {
        if self.contains(stream) {
            self.join_turns(stream);
        }
    }

    /// Returns `true` if a stream waits for a turn on this queue.
    #[inline]
    pub(crate) fn has_turns(&self, queue: QueueId) -> bool {
        !self.queues[queue.index()].turns.is_empty()
    }

    /// Starts the next turn on a queue, if a stream waits for one.
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

    /// Returns `false` if the first held task of a stream only has a place in the order (an answer, a mark or a
    /// deferred drop). All other tasks count against the quantum.
    #[inline]
    pub(crate) fn first_does_work(&self, stream: u32) -> bool {
        let first = self.get(stream).and_then(|actor| actor.held.front());
        !first.is_some_and(|held| {
            matches!(
                held.task.op,
                Op::Answer(_) | Op::SyncPart(_) | Op::Mark | Op::DropAfter(_)
            )
        })
    }

    /// Puts back a turn that a full queue interrupted, as the next turn. A stream is in the turns at most once: if it
    /// joined them again during the turn (when one of its tasks finished without a queue), that place is removed.
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

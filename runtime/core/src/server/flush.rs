//! Flushing: in which order the tasks that streams hold are handed to queues.
//!
//! Any order is right, since tasks held by different streams never conflict unless one is marked as
//! waiting for the other; so order is a matter of strategy. Depth is respected everywhere: what does
//! not fit into a queue stays in its stream.

use crate::backend::Backend;
use crate::id::QueueId;
use crate::message::Op;
use crate::options::Strategy;

use super::Server;
use super::admit::Why;
use super::issue::Issued;

impl<B: Backend> Server<B> {
    /// Issues what a stream holds up to `sequence`, as far as it can go.
    pub(super) fn flush_prefix(&mut self, stream: u32, sequence: u64, why: Why) {
        let Some(actor) = self
            .streams
            .get(stream as usize)
            .filter(|actor| actor.issued < sequence)
        else {
            return;
        };
        let queue = actor.queue;
        self.log_flush(stream, why);
        // A dropped stream is gone with its last task.
        while self
            .streams
            .get(stream as usize)
            .is_some_and(|actor| actor.issued < sequence)
        {
            if self.issue_first(stream) != Issued::Yes {
                break;
            }
        }
        self.end_batch(queue);
    }

    /// Issues what all streams hold, as far as it can go: queue after queue, by strategy. What one
    /// queue sets free on another is taken up in the same call.
    pub fn flush_all(&mut self) {
        for index in 0..self.queues.len() {
            self.end_batch(QueueId(index as u8));
        }
        loop {
            let mut moved = false;
            for index in 0..self.queues.len() {
                if !self.queues[index].turn.is_empty() {
                    moved |= self.flush_queue(QueueId(index as u8));
                }
            }
            if !moved {
                break;
            }
        }
    }

    /// Takes turns on one queue until no stream there can go, and says whether any went.
    fn flush_queue(&mut self, queue: QueueId) -> bool {
        let quantum = match self.strategy() {
            Strategy::Interleave => 1,
            Strategy::Sequential => self.options.max_tasks,
        };
        let mut moved = false;
        while let Some(stream) = self.queues[queue.index()].turn.next() {
            let actor = &mut self.streams[stream as usize];
            actor.in_turn = false;
            let quantum = quantum.saturating_mul(actor.weight);
            let mut gone = std::mem::take(&mut actor.gone);
            // Its go may have been over but for what takes no time, which has gone otherwise since.
            let mut outcome = Issued::Yes;
            loop {
                // Where a stream has come to is told in the go of what it came by.
                let takes_time = self.takes_time(stream);
                if takes_time && gone >= quantum {
                    break;
                }
                outcome = self.issue_first(stream);
                if outcome != Issued::Yes {
                    break;
                }
                gone += usize::from(takes_time);
                moved = true;
            }
            match outcome {
                Issued::Yes if !self.streams.contains(stream as usize) => {}
                Issued::Yes => self.join_turn(stream),
                Issued::Full => {
                    // It keeps its place in the turn, and has only one: what it did in software may
                    // have given it another.
                    let state = &mut self.queues[queue.index()];
                    let actor = &mut self.streams[stream as usize];
                    actor.gone = gone;
                    if std::mem::replace(&mut actor.in_turn, true) {
                        state.turn.leave(stream);
                    }
                    state.turn.put_back(stream, actor.priority());
                    break;
                }
                Issued::Parked | Issued::Empty => {}
            }
        }
        self.end_batch(queue);
        moved
    }

    /// Is the first held task of a stream work, and not only a place in the order?
    fn takes_time(&self, stream: u32) -> bool {
        let first = self
            .streams
            .get(stream as usize)
            .and_then(|actor| actor.held.front());
        !first
            .is_some_and(|held| matches!(held.task.op, Op::Answer(_) | Op::Mark | Op::DropAfter(_)))
    }

    /// Ends the batch that a queue has been given: its point becomes observable.
    pub(super) fn end_batch(&mut self, queue: QueueId) {
        let state = &mut self.queues[queue.index()];
        if state.issued > state.flushed {
            let (cursor, size) = (state.issued, state.issued - state.flushed);
            state.flushed = cursor;
            self.counters.batches += 1;
            self.batch_sizes.record(size);
            self.backend.flush(queue, cursor);
        }
    }
}

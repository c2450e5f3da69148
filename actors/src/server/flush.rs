//! Flushing: the order in which held tasks are issued.
//!
//! Any order between streams is correct, since tasks held by different streams do not conflict unless one has a link to
//! the other. So the order is a question of strategy. Every flush respects the depth: a task that does not fit into its
//! queue stays in its stream.

use millstream_protocol::{Backend, QueueId};

use super::Server;
use super::admit::FlushReason;
use super::issue::IssueOutcome;

impl<B: Backend> Server<B> {
    /// Issues the held tasks of a stream up to `sequence`, as far as they can be issued.
    pub(super) fn flush_prefix(&mut self, stream: u32, sequence: u64, reason: FlushReason) {
        if !self.scheduler.is_held(stream, sequence) {
            return;
        }
        let queue = self.scheduler.queue_of(stream);
        self.log_flush(stream, reason);
        while self.scheduler.is_held(stream, sequence) {
            if self.issue_first(stream) != IssueOutcome::Issued {
                break;
            }
        }
        self.end_batch(queue);
    }

    /// Issues all held tasks of a stream, as far as they can be issued.
    pub(super) fn flush_stream(&mut self, stream: u32) {
        if let Some(last) = self.scheduler.last_sequence(stream) {
            self.flush_prefix(stream, last, FlushReason::Requested);
        }
    }

    /// Issues the held tasks of all streams, as far as they can be issued: queue after queue, by strategy. Tasks that
    /// become issuable on another queue are issued in the same call.
    pub fn flush_all(&mut self) {
        let queues = self.scheduler.queue_ids();
        queues.clone().for_each(|queue| self.end_batch(queue));
        loop {
            let mut issued = false;
            for queue in queues.clone() {
                if self.scheduler.has_turns(queue) {
                    issued |= self.flush_queue(queue);
                }
            }
            if !issued {
                break;
            }
        }
    }

    /// Takes turns on one queue until no stream there can issue. Returns `true` if any task was issued.
    fn flush_queue(&mut self, queue: QueueId) -> bool {
        let mut issued = false;
        while let Some(unfinished) = self.scheduler.queue(queue).unfinished {
            if self.issue_first(unfinished.stream) != IssueOutcome::Issued {
                return issued;
            }
            issued = true;
        }
        while let Some(mut turn) = self.scheduler.next_turn(queue) {
            let stream = turn.stream;
            // A turn that a full queue interrupted may have used up its quantum: then only tasks that do no work are
            // left, if any.
            let mut outcome = IssueOutcome::Issued;
            loop {
                // A point or an answer after a task belongs to the turn of that task.
                let does_work = self.scheduler.first_does_work(stream);
                if does_work && turn.issued >= turn.quantum {
                    break;
                }
                outcome = self.issue_first(stream);
                if outcome != IssueOutcome::Issued {
                    break;
                }
                turn.issued += usize::from(does_work);
                issued = true;
            }
            match outcome {
                IssueOutcome::Issued => self.scheduler.resume(stream),
                IssueOutcome::QueueFull => {
                    self.scheduler.put_back(queue, stream, turn.issued);
                    break;
                }
                IssueOutcome::Parked => {}
            }
        }
        self.end_batch(queue);
        issued
    }

    /// Ends the open batch of a queue: its last point becomes observable. Its event is recorded here and nowhere else.
    pub(super) fn end_batch(&mut self, queue: QueueId) {
        if let Some((cursor, tasks)) = self.scheduler.end_batch(queue) {
            self.observers.count_batch(tasks);
            self.device.backend.flush(queue, cursor);
        }
    }
}

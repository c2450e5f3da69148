//! Flushing: in which order the tasks that streams hold are handed to queues.
//!
//! Any order is right, since tasks held by different streams never conflict unless one is marked as
//! waiting for the other; so order is a matter of strategy. Depth is respected everywhere: what does
//! not fit into a queue stays in its stream.

use millstream_protocol::backend::Backend;
use millstream_protocol::id::QueueId;

use super::Server;
use super::admit::Why;
use super::issue::Issued;

impl<B: Backend> Server<B> {
    /// Issues what a stream holds up to `sequence`, as far as it can go.
    pub(super) fn flush_prefix(&mut self, stream: u32, sequence: u64, why: Why) {
        if !self.scheduler.is_held(stream, sequence) {
            return;
        }
        let queue = self.scheduler.queue_of(stream);
        self.log_flush(stream, why);
        while self.scheduler.is_held(stream, sequence) {
            if self.issue_first(stream) != Issued::Yes {
                break;
            }
        }
        self.end_batch(queue);
    }

    /// Issues all that a stream holds, as far as it can go.
    pub(super) fn flush_stream(&mut self, stream: u32) {
        if let Some(last) = self.scheduler.last_sequence(stream) {
            self.flush_prefix(stream, last, Why::Asked);
        }
    }

    /// Issues what all streams hold, as far as it can go: queue after queue, by strategy. What one
    /// queue sets free on another is taken up in the same call.
    pub fn flush_all(&mut self) {
        let queues = self.scheduler.queue_ids();
        queues.clone().for_each(|queue| self.end_batch(queue));
        loop {
            let mut moved = false;
            for queue in queues.clone() {
                if self.scheduler.has_turns(queue) {
                    moved |= self.flush_queue(queue);
                }
            }
            if !moved {
                break;
            }
        }
    }

    /// Takes turns on one queue until no stream there can go, and says whether any went.
    fn flush_queue(&mut self, queue: QueueId) -> bool {
        let mut moved = false;
        while let Some(mut go) = self.scheduler.next_go(queue) {
            let stream = go.stream;
            // Its go may have been over but for what takes no time, which has gone otherwise since.
            let mut outcome = Issued::Yes;
            loop {
                // Where a stream has come to is told in the go of what it came by.
                let takes_time = self.scheduler.first_takes_time(stream);
                if takes_time && go.gone >= go.quantum {
                    break;
                }
                outcome = self.issue_first(stream);
                if outcome != Issued::Yes {
                    break;
                }
                go.gone += usize::from(takes_time);
                moved = true;
            }
            match outcome {
                Issued::Yes => self.scheduler.resume(stream),
                Issued::Full => {
                    self.scheduler.put_back(queue, stream, go.gone);
                    break;
                }
                Issued::Parked | Issued::Empty => {}
            }
        }
        self.end_batch(queue);
        moved
    }

    /// Ends the batch that a queue has been given: its point becomes observable.
    pub(super) fn end_batch(&mut self, queue: QueueId) {
        if let Some((cursor, tasks)) = self.scheduler.end_batch(queue) {
            self.observers.count_batch(tasks);
            self.device.flush(queue, cursor);
        }
    }
}

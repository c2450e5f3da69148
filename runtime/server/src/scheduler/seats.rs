//! On which queue a stream sits: where it sits down, and when it moves.

use std::sync::Arc;

use millstream_protocol::id::{ClientId, QueueId, StreamId};
use millstream_protocol::priority::Priority;
use millstream_sync::credit::Credit;

use super::Scheduler;
use super::actor::{Parked, StreamActor, credit_chunk};
use super::queue::QueueState;

/// A stream that is to be.
pub(crate) struct NewStream {
    pub(crate) id: StreamId,
    pub(crate) client: ClientId,
    pub(crate) client_name: Arc<str>,
    pub(crate) priority: Priority,
    pub(crate) weight: u32,
    pub(crate) credit: Arc<Credit>,
    /// Do other streams take of the credit, too?
    pub(crate) credit_is_shared: bool,
}

/// A stream that was.
pub(crate) struct GoneStream {
    pub(crate) id: StreamId,
    pub(crate) client: ClientId,
    /// Tasks that it issued.
    pub(crate) issued: u64,
}

impl Scheduler {
    /// A stream comes, and sits down where it suits best. Its key.
    pub(crate) fn add(&mut self, new: NewStream) -> u32 {
        let queue = self.fewest_streams(new.priority);
        // What one stream keeps back may be all that another waits for.
        let credit_chunk = match new.credit_is_shared {
            true => 1,
            false => credit_chunk(new.credit.limit()),
        };
        self.queues[queue.index()].seat(new.priority);
        let number = self.streams_made;
        self.streams_made += 1;
        self.streams.insert(StreamActor {
            id: new.id,
            client: new.client,
            client_name: new.client_name,
            own_priority: new.priority,
            weight: new.weight.max(1) as usize,
            inherited: Default::default(),
            number,
            credit: new.credit,
            queue,
            held: Default::default(),
            issued: 0,
            last: 0,
            parked: Parked::No,
            in_turn: false,
            gone: 0,
            unreleased: 0,
            credit_chunk,
            waiters: Default::default(),
            covered: Vec::new(),
            dropped: false,
        }) as u32
    }

    /// Where a new stream sits down: priorities have queues of their own, as far as there are queues.
    fn fewest_streams(&self, priority: Priority) -> QueueId {
        let fewest = self
            .numbered_queues()
            .min_by_key(|(_, queue)| (queue.misfit(priority), queue.streams));
        fewest.map_or(QueueId(0), |(queue, _)| queue)
    }

    /// The last handle of a stream is gone: the stream goes with its last task.
    pub(crate) fn mark_dropped(&mut self, stream: u32) {
        self.streams[stream as usize].dropped = true;
    }

    /// A dropped stream that holds nothing goes.
    pub(crate) fn remove_if_done(&mut self, key: u32) -> Option<GoneStream> {
        let stream = &self.streams[key as usize];
        if !stream.dropped || !stream.held.is_empty() || !stream.waiters.is_empty() {
            return None;
        }
        let stream = self.streams.remove(key as usize);
        let queue = &mut self.queues[stream.queue.index()];
        if stream.in_turn {
            queue.turn.leave(key);
        }
        queue.unseat(stream.own_priority);
        Some(GoneStream {
            id: stream.id,
            client: stream.client,
            issued: stream.issued,
        })
    }

    /// An idle stream sits down where the least is in flight. Only then: the order within a stream is
    /// its queue's order.
    #[inline]
    pub(crate) fn settle(&mut self, stream: u32) {
        let actor = &self.streams[stream as usize];
        let queue = &self.queues[actor.queue.index()];
        // As of the last look, which every burst begins with.
        let idle = actor.last <= queue.completed;
        if idle && queue.in_flight() > 0 && actor.held.is_empty() {
            self.move_if_idle(stream);
        }
    }

    /// The stream is idle, and its queue has work of others.
    #[cold]
    fn move_if_idle(&mut self, stream: u32) {
        // What has completed since the last look must not count as load.
        for queue in &mut self.queues {
            queue.look();
        }
        let actor = &self.streams[stream as usize];
        let (current, priority) = (actor.queue, actor.own_priority);
        let load = |queue: &QueueState| queue.in_flight() + queue.held;
        // Not to a queue of another priority, nor to one that others share, from one of its own.
        let worst = self.queues[current.index()].misfit(priority).min(1);
        let least = self
            .numbered_queues()
            .filter(|(_, queue)| queue.misfit(priority) <= worst)
            .min_by_key(|(_, queue)| load(queue));
        let Some((least, _)) =
            least.filter(|(_, least)| load(least) < load(&self.queues[current.index()]))
        else {
            return;
        };
        if std::mem::take(&mut self.streams[stream as usize].in_turn) {
            // It was flushed by itself and kept its place in the turn.
            self.queues[current.index()].turn.leave(stream);
        }
        self.queues[current.index()].unseat(priority);
        self.queues[least.index()].seat(priority);
        let actor = &mut self.streams[stream as usize];
        actor.queue = least;
        actor.last = 0;
    }

    /// The queue of a stream that sits there alone, while no stream holds anything: its next task is ordered with nothing.
    #[inline(always)]
    pub(crate) fn lone_queue(&self, stream: u32) -> Option<QueueId> {
        let queue = self.streams[stream as usize].queue;
        (self.held == 0 && self.queues[queue.index()].streams == 1).then_some(queue)
    }

    /// May the next task of a lone stream be issued where it sits, without a look? One that is idle behind others may sit down
    /// elsewhere, and a queue that seems full is to be looked at.
    #[inline(always)]
    pub(crate) fn is_seated(&self, stream: u32, queue: QueueId) -> bool {
        let state = &self.queues[queue.index()];
        let idle = self.streams[stream as usize].last <= state.completed;
        (!idle || state.in_flight() == 0) && state.in_flight() < self.depth
    }
}

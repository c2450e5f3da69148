//! Queue assignment: the queue of a new stream, and when an idle stream moves to another queue.

use millstream_protocol::{NewStream, Point, Priority, QueueId};

use super::Scheduler;
use super::queue::QueueState;
use crate::stream_actor::{Parked, StreamActor, credit_chunk};

/// The place of a task that passes through.
pub(crate) struct Passing {
    /// Its first point.
    pub(crate) point: Point,
    /// Its last point. Of several cursors only the first is taken so far.
    pub(crate) last: Point,
    /// Whether the open batch of its queue is full with it.
    pub(crate) fills_batch: bool,
}

impl Scheduler {
    /// Adds a stream, assigns it to the queue that suits it best, and returns its key.
    pub(crate) fn add(&mut self, new: NewStream) -> u32 {
        let queue = self.fewest_streams(new.priority);
        // If the credit is shared, a caller of another stream may wait for all that this one keeps back.
        let credit_chunk = match new.credit_is_shared {
            true => 1,
            false => credit_chunk(new.credit.limit()),
        };
        self.queues[queue.index()].assign(new.priority);
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
            unpaid: 0,
            last: 0,
            parked: Parked::No,
            waits_for_turn: false,
            turn_issued: 0,
            unreleased: 0,
            credit_chunk,
            waiters: Default::default(),
            covers: Default::default(),
            dropped: false,
        }) as u32
    }

    /// Returns the queue of a new stream: the one with the fewest streams among those that suit its priority best. So
    /// each priority has queues of its own as far as there are enough.
    fn fewest_streams(&self, priority: Priority) -> QueueId {
        let fewest = self
            .numbered_queues()
            .min_by_key(|(_, queue)| (queue.priority_mismatch(priority), queue.streams));
        fewest.map_or(QueueId(0), |(queue, _)| queue)
    }

    /// Marks a stream as dropped: its last handle is gone. It is removed with its last task.
    pub(crate) fn mark_dropped(&mut self, stream: u32) {
        self.streams[stream as usize].dropped = true;
    }

    /// Removes and returns a dropped stream that holds no task and that no task waits for.
    pub(crate) fn remove_if_done(&mut self, key: u32) -> Option<StreamActor> {
        let stream = &self.streams[key as usize];
        if !stream.dropped || !stream.held.is_empty() || !stream.waiters.is_empty() {
            return None;
        }
        let stream = self.streams.remove(key as usize);
        let queue = &mut self.queues[stream.queue.index()];
        if stream.waits_for_turn {
            queue.turns.leave(key);
        }
        queue.unassign(stream.own_priority);
        Some(stream)
    }

    /// Moves an idle stream to the least-loaded queue, if its queue has tasks in flight. A busy stream stays: the order
    /// within a stream is the order of its queue (I1).
    #[inline]
    pub(crate) fn rebalance(&mut self, stream: u32) {
        let actor = &self.streams[stream as usize];
        let queue = &self.queues[actor.queue.index()];
        // As of the last refresh; every burst of messages begins with one.
        let idle = actor.last <= queue.completed;
        if idle && queue.in_flight() > 0 && actor.held.is_empty() {
            self.move_to_least_loaded(stream);
        }
    }

    /// Moves a stream that is idle to the least-loaded queue. Its own has work of others.
    #[cold]
    fn move_to_least_loaded(&mut self, stream: u32) {
        // What has completed since the last refresh is no load.
        for queue in &mut self.queues {
            queue.refresh();
        }
        let actor = &self.streams[stream as usize];
        let (current, priority) = (actor.queue, actor.own_priority);
        let load = |queue: &QueueState| queue.in_flight() + queue.held;
        // A stream moves neither to a queue of another priority, nor from a queue of its own priority to a shared one.
        let worst = self.queues[current.index()]
            .priority_mismatch(priority)
            .min(1);
        let least = self
            .numbered_queues()
            .filter(|(_, queue)| queue.priority_mismatch(priority) <= worst)
            .min_by_key(|(_, queue)| load(queue));
        let Some((least, _)) =
            least.filter(|(_, least)| load(least) < load(&self.queues[current.index()]))
        else {
            return;
        };
        if std::mem::take(&mut self.streams[stream as usize].waits_for_turn) {
            // It was flushed out of turn, and kept its place in the turns.
            self.queues[current.index()].turns.leave(stream);
        }
        self.queues[current.index()].unassign(priority);
        self.queues[least.index()].assign(priority);
        let actor = &mut self.streams[stream as usize];
        actor.queue = least;
        actor.last = 0;
    }

    /// Returns the queue of a stream that is alone on it while no stream holds a task: its next task is ordered with no
    /// held task.
    #[inline(always)]
    pub(crate) fn lone_queue(&self, stream: u32) -> Option<QueueId> {
        let queue = self.streams[stream as usize].queue;
        (self.held == 0 && self.queues[queue.index()].streams == 1).then_some(queue)
    }

    /// Counts the next task of a lone stream as issued, if it takes one cursor and may be issued without further checks:
    /// a stream that is idle on a busy queue may be moved, and a queue that seems full must be refreshed first.
    #[inline(always)]
    pub(crate) fn pass(&mut self, stream: u32, paid: bool) -> Option<Passing> {
        let queue = self.lone_queue(stream)?;
        let state = &self.queues[queue.index()];
        let idle = self.streams[stream as usize].last <= state.completed;
        let passes = (!idle || state.in_flight() == 0) && state.in_flight() < state.depth.now();
        passes.then(|| self.pass_on(queue, stream, 1, paid))
    }

    /// Counts the next task of a stream that holds none as issued to its queue. Takes the first of its cursors. All
    /// lookups come before the task is issued, so that the compiler joins them with those of [`Self::pass`].
    #[inline(always)]
    pub(crate) fn pass_on(
        &mut self,
        queue: QueueId,
        stream: u32,
        cursors: u64,
        paid: bool,
    ) -> Passing {
        let state = &mut self.queues[queue.index()];
        state.issued += 1;
        let point = Point::new(queue, state.issued);
        let last = Point::new(queue, state.issued + cursors - 1);
        let fills_batch = last.cursor - state.flushed >= self.batch_size as u64;
        let actor = &mut self.streams[stream as usize];
        actor.issued += 1;
        actor.last = last.cursor;
        match paid {
            true => actor.release_credit(),
            false => actor.unpaid += 1,
        }
        Passing {
            point,
            last,
            fills_batch,
        }
    }
}

//! The cursors of queues: which one the next task takes, where batches end, how far the device has come, and whether there is room.

use millstream_protocol::id::{Cursor, Point, QueueId};
use millstream_protocol::report::QueueStats;
use smallvec::SmallVec;

use super::Scheduler;
use super::queue::QueueState;

impl Scheduler {
    /// The place of the next task of a queue.
    #[inline(always)]
    pub(crate) fn next_point(&mut self, queue: QueueId) -> Point {
        let state = &mut self.queues[queue.index()];
        state.issued += 1;
        Point::new(queue, state.issued)
    }

    /// A task takes `cursors` cursors beyond its first.
    #[inline]
    pub(crate) fn take_cursors(&mut self, queue: QueueId, cursors: u64) {
        self.queues[queue.index()].issued += cursors;
    }

    /// The batch that a queue was given ends: up to which cursor, and how many tasks it is. None, if there is none.
    #[inline]
    pub(crate) fn end_batch(&mut self, queue: QueueId) -> Option<(Cursor, u64)> {
        let state = &mut self.queues[queue.index()];
        let tasks = state.issued - state.flushed;
        state.flushed = state.issued;
        (tasks > 0).then_some((state.issued, tasks))
    }

    /// Tasks of the batch that a queue is being given.
    #[inline]
    pub(crate) fn batch_so_far(&self, queue: QueueId) -> u64 {
        let state = &self.queues[queue.index()];
        state.issued - state.flushed
    }

    /// Has the batch with this point ended, so that a wait for the point may be issued?
    #[inline]
    pub(crate) fn is_flushed(&self, point: Point) -> bool {
        self.queues[point.queue.index()].flushed >= point.cursor
    }

    /// Looks at the progress of a queue, and says how far it has come.
    #[inline]
    pub(crate) fn look(&mut self, queue: QueueId) -> Cursor {
        let state = &mut self.queues[queue.index()];
        state.look();
        state.completed
    }

    /// Has a queue enough in flight, as of the last look?
    #[inline]
    pub(crate) fn seems_full(&self, queue: QueueId) -> bool {
        self.queues[queue.index()].in_flight() >= self.depth
    }

    /// The same, having looked. What was issued is on its way: else it would never complete.
    pub(crate) fn is_full(&mut self, queue: QueueId) -> bool {
        let state = &mut self.queues[queue.index()];
        state.look();
        state.full = state.in_flight() >= self.depth;
        state.full
    }

    /// Did issuing stop on the queue of a stream, because enough is in flight?
    #[inline]
    pub(crate) fn sits_on_full(&self, stream: u32) -> bool {
        self.queue(self.queue_of(stream)).full
    }

    /// Looks at all queues. Says whether any has come further since its progress was taken up last.
    #[inline]
    pub(crate) fn progress(&mut self) -> bool {
        let mut moved = false;
        for queue in &mut self.queues {
            queue.look();
            // Others look too, when a queue is full or a host function waits; what they saw is taken
            // up here all the same.
            if queue.completed > queue.taken_up {
                queue.taken_up = queue.completed;
                queue.full = false;
                moved = true;
            }
        }
        moved
    }

    /// Is there anything to flush?
    pub(crate) fn can_flush(&self) -> bool {
        self.queues
            .iter()
            .any(|queue| queue.issued > queue.flushed || (!queue.full && !queue.turn.is_empty()))
    }

    /// Has everything that was issued completed, and is nothing held?
    pub(crate) fn is_drained(&self) -> bool {
        let mut queues = self.queues.iter();
        self.held == 0 && queues.all(|queue| queue.issued == queue.completed)
    }

    /// The last point of each queue that has work in flight.
    pub(crate) fn last_points(&self) -> impl Iterator<Item = Point> {
        let busy = self.numbered_queues();
        busy.filter(|(_, queue)| queue.in_flight() > 0)
            .map(|(id, queue)| Point::new(id, queue.issued))
    }

    /// Has this point passed, as of the last look?
    #[inline]
    pub(crate) fn has_passed(&self, point: Point) -> bool {
        self.queues[point.queue.index()].completed >= point.cursor
    }

    /// Has this point passed, or will nothing be there? A replay may end before its last point.
    pub(crate) fn is_over(&self, point: Point) -> bool {
        let state = &self.queues[point.queue.index()];
        state.completed >= point.cursor.min(state.issued)
    }

    /// Where the issued work of each queue ends, of those that were issued any.
    pub(crate) fn ends(&self) -> SmallVec<[Point; 2]> {
        let ends = self.numbered_queues();
        ends.map(|(id, queue)| Point::new(id, queue.issued))
            .filter(|point| point.cursor > 0)
            .collect()
    }

    /// Where the issued work of these streams ends, on each queue where they have any.
    pub(crate) fn ends_of(&self, streams: &[u32]) -> SmallVec<[Point; 2]> {
        let mut ends = SmallVec::<[Point; 2]>::new();
        for stream in streams.iter().map(|key| self.stream(*key)) {
            match ends.iter_mut().find(|end| end.queue == stream.queue) {
                Some(end) => end.cursor = end.cursor.max(stream.last),
                None => ends.push(Point::new(stream.queue, stream.last)),
            }
        }
        ends.retain(|end| end.cursor > 0);
        ends
    }

    /// The counters of each queue, but for the time in which it was busy, which only its backend knows.
    pub(crate) fn queue_stats(&self) -> Vec<QueueStats> {
        let stats = |queue: &QueueState| {
            let mut stats = QueueStats::default();
            stats.tasks = queue.issued;
            stats.completed = queue.timeline.completed().min(queue.issued);
            stats.in_flight_max = self.depth;
            stats.held = queue.held;
            stats.streams = u64::from(queue.streams);
            stats
        };
        self.queues.iter().map(stats).collect()
    }

    /// The first cursor of a queue that issuing or a host function waits for.
    pub(crate) fn wants(&self, queue: QueueId) -> Option<Cursor> {
        let wants = [self.wants_room(queue), self.host_wants(queue)];
        wants.into_iter().flatten().min()
    }

    /// The cursor of a queue that is full at which there is room again.
    pub(super) fn wants_room(&self, queue: QueueId) -> Option<Cursor> {
        let state = &self.queues[queue.index()];
        let waits = state.full && !state.turn.is_empty();
        waits.then(|| state.completed + (state.in_flight() / 2).max(1))
    }

    /// Tasks of one batch.
    #[inline]
    pub(crate) fn batch(&self) -> usize {
        self.batch
    }

    /// From here on a queue has no more tasks in flight than this, nor more than it was made for.
    pub(crate) fn limit_depth(&mut self, tasks: usize) {
        self.depth = self.depth_max.min(tasks as u64);
    }
}

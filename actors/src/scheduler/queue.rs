//! A physical queue as the scheduler sees it: how far it was issued, how far it has completed, and whether it has room.

use std::sync::Arc;

use millstream_protocol::{Cursor, Point, Priority, QueueId, QueueStats};
use millstream_state::points::Points;
use millstream_sync::timeline::Timeline;

use super::Scheduler;
use super::depth::Depth;
use super::turns::Turns;
use crate::stream_actor::StreamActor;

/// One queue of the device.
pub(crate) struct QueueState {
    pub(crate) timeline: Arc<Timeline>,
    /// The cursor of the last issued task.
    pub(crate) issued: Cursor,
    /// The cursor at which the last batch ended.
    pub(crate) flushed: Cursor,
    /// The completed cursor, as of the last refresh.
    pub(crate) completed: Cursor,
    /// The completed cursor whose consequences (memory, slots, host functions) the server has processed.
    pub(super) processed: Cursor,
    /// The number of tasks that its streams hold.
    pub(super) held: u64,
    pub(super) turns: Turns,
    /// The priority that the device gives to this queue, if it gives any.
    own_priority: Option<Priority>,
    /// The number of streams that are assigned to it.
    pub(super) streams: u32,
    /// The number of its streams, by priority of their clients.
    pub(super) streams_by_priority: [u32; 3],
    /// Whether issuing stopped because the queue has enough tasks in flight.
    pub(crate) full: bool,
    /// The number of tasks that it may have in flight.
    pub(super) depth: Depth,
    /// The task whose rest is issued as room appears. Its cursors are consecutive, so no other task is issued here
    /// meanwhile.
    pub(crate) unfinished: Option<Unfinished>,
}

/// A replay, or a copy with several results, of which a part is issued: the first held task of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unfinished {
    /// The stream.
    pub(crate) stream: u32,
    /// The first of its points.
    pub(crate) first: Point,
    /// The index of the next recorded task, or of the next result, to issue.
    pub(crate) next: usize,
    /// Whether no recorded task can fail because of what it reads: no parameter has poisoned ranges.
    pub(crate) is_clean: bool,
}

impl QueueState {
    pub(crate) fn new(timeline: Arc<Timeline>, own_priority: Option<Priority>) -> Self {
        Self {
            timeline,
            own_priority,
            issued: 0,
            flushed: 0,
            completed: 0,
            processed: 0,
            held: 0,
            turns: Turns::default(),
            streams: 0,
            streams_by_priority: [0; 3],
            full: false,
            depth: Depth::fixed(u64::MAX),
            unfinished: None,
        }
    }

    /// Returns the number of issued tasks that have not completed, as of the last refresh.
    #[inline]
    pub(crate) fn in_flight(&self) -> u64 {
        self.issued - self.completed
    }

    /// Returns the cursor up to which every task has passed or never comes, as of the last refresh: a replay may end
    /// before its last point.
    pub(crate) fn over(&self) -> Cursor {
        match self.in_flight() == 0 && self.unfinished.is_none() {
            true => Cursor::MAX,
            false => self.completed,
        }
    }

    /// Assigns a stream to this queue.
    pub(super) fn assign(&mut self, priority: Priority) {
        self.streams += 1;
        self.streams_by_priority[priority as usize] += 1;
    }

    /// Removes a stream from this queue.
    pub(super) fn unassign(&mut self, priority: Priority) {
        self.streams -= 1;
        self.streams_by_priority[priority as usize] -= 1;
    }

    /// Returns how badly this queue suits streams of `priority`: 0 if the device gives it that priority, 1 if it has no
    /// priority and all of its streams have `priority`, 2 if streams of another priority share it, 3 if the device
    /// gives it another priority.
    pub(super) fn priority_mismatch(&self, priority: Priority) -> u8 {
        match self.own_priority {
            Some(own_priority) if own_priority == priority => 0,
            Some(_) => 3,
            None => 1 + u8::from(self.streams > self.streams_by_priority[priority as usize]),
        }
    }

    /// Reads the progress from the timeline.
    #[inline]
    pub(super) fn refresh(&mut self) {
        let completed = self.timeline.completed().min(self.issued);
        self.completed = self.completed.max(completed);
    }
}

// The cursors of queues: the cursor of the next task, the ends of batches, the progress of the device, and whether
// there is room.

impl Scheduler {
    /// Takes the point of the next task of a queue.
    #[inline(always)]
    pub(crate) fn next_point(&mut self, queue: QueueId) -> Point {
        let state = &mut self.queues[queue.index()];
        state.issued += 1;
        Point::new(queue, state.issued)
    }

    /// Takes `cursors` further cursors for a task that has its first.
    #[inline]
    pub(crate) fn take_cursors(&mut self, queue: QueueId, cursors: u64) {
        self.queues[queue.index()].issued += cursors;
    }

    /// Ends the open batch of a queue. Returns its last cursor and its number of tasks, or `None` if it is empty.
    #[inline]
    pub(crate) fn end_batch(&mut self, queue: QueueId) -> Option<(Cursor, u64)> {
        let state = &mut self.queues[queue.index()];
        let tasks = state.issued - state.flushed;
        state.flushed = state.issued;
        (tasks > 0).then_some((state.issued, tasks))
    }

    /// Reads the progress of a queue and returns its completed cursor.
    #[inline]
    pub(crate) fn refresh(&mut self, queue: QueueId) -> Cursor {
        let state = &mut self.queues[queue.index()];
        state.refresh();
        state.completed
    }

    /// Returns `true` if the queue has enough tasks in flight, as of the last refresh.
    #[inline]
    pub(crate) fn seems_full(&self, queue: QueueId) -> bool {
        let state = &self.queues[queue.index()];
        state.in_flight() >= state.depth.now()
    }

    /// Returns `true` if the queue has enough tasks in flight, after a refresh. The open batch must have ended: a task
    /// that is not flushed never completes.
    pub(crate) fn is_full(&mut self, queue: QueueId) -> bool {
        let state = &mut self.queues[queue.index()];
        state.refresh();
        let was_full = state.full;
        state.full = state.in_flight() >= state.depth.now();
        if let Some(clock) = &self.clock {
            match (was_full, state.full) {
                (true, true) => {}
                (false, true) => state.depth.became_full(clock(), state.completed),
                (true, false) => {
                    let is_empty = state.in_flight() == 0;
                    state.depth.progressed(clock(), state.completed, is_empty);
                }
                (false, false) => state.depth.has_room(clock(), state.completed, state.issued),
            }
        }
        state.full
    }

    /// Refreshes all queues. Returns `true` if any has completed more since its progress was last processed here.
    #[inline]
    pub(crate) fn progress(&mut self) -> bool {
        let mut moved = false;
        for queue in &mut self.queues {
            queue.refresh();
            // A full queue and a waiting host function refresh queues too; the progress that they saw is processed here
            // as well.
            if queue.completed > queue.processed {
                queue.processed = queue.completed;
                if std::mem::take(&mut queue.full)
                    && let Some(clock) = &self.clock
                {
                    let is_empty = queue.in_flight() == 0;
                    queue.depth.progressed(clock(), queue.completed, is_empty);
                }
                moved = true;
            }
        }
        moved
    }

    /// Returns `true` if there is anything to flush.
    pub(crate) fn can_flush(&self) -> bool {
        self.queues
            .iter()
            .any(|queue| queue.issued > queue.flushed || (!queue.full && !queue.turns.is_empty()))
    }

    /// Returns `true` if no task is held or in flight.
    pub(crate) fn is_drained(&self) -> bool {
        let mut queues = self.queues.iter();
        self.held == 0 && queues.all(|queue| queue.issued == queue.completed)
    }

    /// Iterates over the last point of each queue that has tasks in flight.
    pub(crate) fn last_points(&self) -> impl Iterator<Item = Point> {
        let busy = self.numbered_queues();
        busy.filter(|(_, queue)| queue.in_flight() > 0)
            .map(|(id, queue)| Point::new(id, queue.issued))
    }

    /// Returns `true` if the point has passed, as of the last refresh.
    #[inline]
    pub(crate) fn has_passed(&self, point: Point) -> bool {
        self.queues[point.queue.index()].completed >= point.cursor
    }

    /// Returns `true` if the point has passed or will never be issued.
    pub(crate) fn is_over(&self, point: Point) -> bool {
        self.queue(point.queue).over() >= point.cursor
    }

    /// Returns the last issued point of each queue that was issued any.
    pub(crate) fn ends(&self) -> Points {
        let ends = self.numbered_queues();
        ends.map(|(id, queue)| Point::new(id, queue.issued))
            .collect()
    }

    /// Returns the last issued point of these streams, on each queue where they have any.
    pub(crate) fn ends_of(&self, streams: &[u32]) -> Points {
        let streams = streams.iter().map(|key| self.stream(*key));
        streams.filter_map(StreamActor::last_point).collect()
    }

    /// Returns the counters of each queue, except for its busy time, which only the backend knows.
    pub(crate) fn queue_stats(&self) -> Vec<QueueStats> {
        let stats = |queue: &QueueState| {
            let mut stats = QueueStats::default();
            stats.tasks = queue.issued;
            stats.completed = queue.timeline.completed().min(queue.issued);
            stats.in_flight_max = queue.depth.now();
            stats.held = queue.held;
            stats.streams = u64::from(queue.streams);
            stats
        };
        self.queues.iter().map(stats).collect()
    }

    /// Returns the least cursor of a queue that issuing or a host function waits for.
    pub(crate) fn wake_cursor(&self, queue: QueueId) -> Option<Cursor> {
        let host = self.waiting_hosts.oldest(queue);
        let host = host.filter(|cursor| *cursor > self.queues[queue.index()].completed);
        self.room_cursor(queue).into_iter().chain(host).min()
    }

    /// Returns the cursor at which a full queue has room again, if streams wait for a turn on it.
    pub(super) fn room_cursor(&self, queue: QueueId) -> Option<Cursor> {
        let state = &self.queues[queue.index()];
        let waits = state.full && !state.turns.is_empty();
        waits.then(|| state.completed + (state.in_flight() / 2).max(1))
    }

    /// Returns the number of tasks of a full batch.
    #[inline]
    pub(crate) fn batch_size(&self) -> usize {
        self.batch_size
    }

    /// Records the task of which a part was issued to a queue, or that its last part was.
    pub(crate) fn set_unfinished(&mut self, queue: QueueId, unfinished: Option<Unfinished>) {
        self.queues[queue.index()].unfinished = unfinished;
    }

    /// Returns how many tasks the driver takes now without blocking (I12), as of the last refresh.
    #[inline]
    pub(crate) fn room(&self, queue: QueueId) -> u64 {
        let in_flight = self.queues[queue.index()].in_flight();
        self.driver_depth.saturating_sub(in_flight)
    }

    /// Limits the tasks in flight of each queue to `tasks`, which the driver takes without blocking, and to the limit
    /// that the device was opened with.
    pub(crate) fn limit_depth(&mut self, tasks: usize) {
        self.driver_depth = tasks as u64;
        let most = self.depth_max.min(tasks as u64);
        for queue in &mut self.queues {
            queue.depth.limit(most);
        }
    }
}

//! A physical queue as the scheduler sees it: how far it was issued, and how far it has completed.

use std::sync::Arc;

use millstream_protocol::{Cursor, Point, Priority};
use millstream_sync::timeline::Timeline;

use super::depth::Depth;
use crate::scheduler::turns::Turns;

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

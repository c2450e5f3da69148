//! Host functions: they run once the tasks before them have completed, on every queue that they come after.
//!
//! A stream whose first task is a host function is parked until then ([`Parked::HostWaits`]). The function runs on
//! another thread, and its stream stays parked until it has ended ([`Parked::HostRuns`]).

use std::sync::Arc;

use millstream_protocol::{Cursor, Point, TaskExtras};

use super::Scheduler;
use super::queue::QueueState;
use crate::stream_actor::Parked;
use crate::stream_actor::held_task::HeldTask;
use millstream_state::points::Points;

impl Scheduler {
    /// Parks a stream: its first task is a host function that waits until its dependencies have completed.
    pub(crate) fn park_on_host(&mut self, stream: u32) {
        let actor = &mut self.streams[stream as usize];
        actor.parked = Parked::HostWaits;
        let mut points = Points::from(Point::new(actor.queue, actor.last));
        for point in actor.held.front().iter().flat_map(|held| held.after.iter()) {
            points.insert(point);
        }
        points.retain_open(|point| self.has_passed(point));
        // Without an open dependency it waits for a point that has passed.
        let passed = Point::new(self.queue_of(stream), 0);
        let home = points.pop().unwrap_or(passed);
        self.waiting_hosts.push(stream, home, points);
    }

    /// Puts back the task that was taken out of its stream, as its first, after a part of it was issued at `cursor`. The
    /// rest comes after that part, which comes after all that the task depends on.
    pub(crate) fn put_back_after(&mut self, stream: u32, mut held: Box<HeldTask>, cursor: Cursor) {
        held.after.clear();
        let actor = &mut self.streams[stream as usize];
        actor.last = actor.last.max(cursor);
        actor.held.push_front(held);
    }

    /// Returns `true` if a host function waits for its dependencies.
    #[inline]
    pub(crate) fn has_waiting_hosts(&self) -> bool {
        !self.waiting_hosts.is_empty()
    }

    /// Returns the stream of the next host function whose dependencies have completed, its sequence there, and its task.
    /// It is not waiting any more: the task is taken out of its stream, which stays parked.
    pub(crate) fn next_ready_host(&mut self) -> Option<(u32, u64, Box<HeldTask>)> {
        self.queues.iter_mut().for_each(QueueState::refresh);
        let queues = &self.queues;
        let passed = |point: Point| queues[point.queue.index()].completed >= point.cursor;
        let mut ids = self.queue_ids();
        let stream = ids.find_map(|queue| self.waiting_hosts.pop_passed(queue, passed))?;
        let actor = self.get_mut(stream)?;
        actor.parked = Parked::HostRuns;
        Some((stream, actor.issued + 1, actor.held.pop_front()?))
    }

    /// Records that the host function begins. The rest of its task is the first of the stream until it has ended.
    pub(crate) fn host_begins(&mut self, stream: u32, held: Box<HeldTask>, name: Arc<str>) {
        self.host_names.insert(stream, name);
        self.put_first_back(stream, held);
    }

    /// Ends the host function that is task `sequence` of a stream. Takes its task out of the stream and returns it with
    /// the name. Returns `None` if no such function runs.
    pub(crate) fn host_ends(
        &mut self,
        stream: u32,
        sequence: u64,
    ) -> Option<(Box<HeldTask>, Option<Arc<str>>)> {
        let actor = self.get_mut(stream)?;
        if actor.parked != Parked::HostRuns || actor.issued + 1 != sequence {
            return None;
        }
        let held = actor.held.pop_front()?;
        let name = self.host_names.remove(&stream);
        Some((held, name))
    }

    /// Records that a host function has ended on a device that is lost or closed.
    pub(crate) fn forget_host(&mut self, stream: u32) {
        self.host_names.remove(&stream);
    }

    /// Records that a host function was about to run and never begins, because its device is lost.
    pub(crate) fn host_never_begins(&mut self, stream: u32) {
        self.forget_host(stream);
        let actor = self.get_mut(stream);
        if let Some(held) = actor.and_then(|actor| actor.held.front_mut()) {
            if let Some(terms) = held.task.terms() {
                terms.never_began_on_host();
            }
            // The terms have counted it: the rest of the task, which the stream still holds, must not end them again.
            held.task.extra = TaskExtras::default();
        }
    }

    /// Returns `true` if a host function runs.
    pub(crate) fn host_runs(&self) -> bool {
        !self.host_names.is_empty()
    }
}

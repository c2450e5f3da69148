//! Host functions: they run once the tasks before them have completed, on every queue that they come after.
//!
//! A stream whose first task is a host function is parked until then ([`Parked::HostWaits`]). The function runs on
//! another thread, and its stream stays parked until it has ended ([`Parked::HostRuns`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use millstream_protocol::id::{Cursor, Point, QueueId};
use millstream_protocol::message::TaskExtras;

use super::Scheduler;
use super::actor::Parked;
use super::task::HeldTask;

/// A host function whose dependencies have completed.
pub(crate) struct ReadyHost {
    pub(crate) stream: u32,
    /// Its sequence in its stream.
    pub(crate) sequence: u64,
    /// Its task, taken out of the stream.
    pub(crate) held: Box<HeldTask>,
}

/// A host function that has ended.
pub(crate) struct EndedHost {
    /// Its task, taken out of the stream.
    pub(crate) held: Box<HeldTask>,
    pub(crate) name: Option<Arc<str>>,
}

/// The streams whose first task is a host function that waits: each at one point of its dependencies that has not
/// passed. So a completion costs the host functions that waited for it, however many others wait.
pub(super) struct WaitingHosts(Vec<BTreeSet<(Cursor, u32)>>);

impl WaitingHosts {
    /// Creates the lists of this number of queues.
    pub(super) fn new(queues: usize) -> Self {
        Self((0..queues).map(|_| BTreeSet::new()).collect())
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(BTreeSet::is_empty)
    }

    fn add(&mut self, point: Point, stream: u32) {
        self.0[point.queue.index()].insert((point.cursor, stream));
    }

    /// Takes a stream whose point on `queue` has passed.
    fn take_passed(&mut self, queue: QueueId, completed: Cursor) -> Option<u32> {
        let waiting = &mut self.0[queue.index()];
        let (cursor, stream) = *waiting.first()?;
        (cursor <= completed).then(|| {
            waiting.pop_first();
            stream
        })
    }

    /// Returns the least cursor of `queue` after `completed` that a stream waits for.
    fn next_after(&self, queue: QueueId, completed: Cursor) -> Option<Cursor> {
        let mut later = self.0[queue.index()].range((completed + 1, 0)..);
        Some(later.next()?.0)
    }

    /// Removes all streams.
    pub(super) fn clear(&mut self) {
        self.0.iter_mut().for_each(BTreeSet::clear);
    }
}

impl Scheduler {
    /// Parks a stream: its first task is a host function that waits until its dependencies have completed.
    pub(crate) fn park_on_host(&mut self, stream: u32) {
        self.streams[stream as usize].parked = Parked::HostWaits;
        // Without an open dependency it waits for a point that has passed.
        let passed = Point::new(self.queue_of(stream), 0);
        let point = self.next_dependency(stream).unwrap_or(passed);
        self.waiting_hosts.add(point, stream);
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

    /// Returns the next host function whose dependencies have completed. It is not waiting any more: its task is taken
    /// out of its stream, which stays parked.
    pub(crate) fn next_ready_host(&mut self) -> Option<ReadyHost> {
        for queue in self.queue_ids() {
            let completed = self.refresh(queue);
            while let Some(stream) = self.waiting_hosts.take_passed(queue, completed) {
                if let Some(point) = self.next_dependency(stream) {
                    self.waiting_hosts.add(point, stream);
                    continue;
                }
                let Some(actor) = self.get_mut(stream) else {
                    continue;
                };
                actor.parked = Parked::HostRuns;
                if let Some(held) = actor.held.pop_front() {
                    return Some(ReadyHost {
                        stream,
                        sequence: actor.issued + 1,
                        held,
                    });
                }
            }
        }
        None
    }

    /// Returns a point that the first task of a stream depends on and that has not passed.
    fn next_dependency(&mut self, stream: u32) -> Option<Point> {
        #[cfg(test)]
        crate::steps::count();
        let actor = self.streams.get(stream as usize)?;
        let held = actor.held.front()?;
        let last = Point::new(actor.queue, actor.last);
        let mut points = std::iter::once(last).chain(held.after.iter().copied());
        let queues = &mut self.queues;
        points.find(|point| {
            let state = &mut queues[point.queue.index()];
            state.refresh();
            state.completed < point.cursor
        })
    }

    /// Returns the least cursor of a queue that a host function waits for.
    pub(super) fn host_cursor(&self, queue: QueueId) -> Option<Cursor> {
        let completed = self.queues[queue.index()].completed;
        self.waiting_hosts.next_after(queue, completed)
    }

    /// Records that the host function begins. The rest of its task is the first of the stream until it has ended.
    pub(crate) fn host_begins(&mut self, stream: u32, held: Box<HeldTask>, name: Arc<str>) {
        self.host_names.insert(stream, name);
        self.put_first_back(stream, held);
    }

    /// Ends the host function that is task `sequence` of a stream. Takes its task out of the stream and returns it with
    /// the name. Returns `None` if no such function runs.
    pub(crate) fn host_ends(&mut self, stream: u32, sequence: u64) -> Option<EndedHost> {
        let actor = self.get_mut(stream)?;
        if actor.parked != Parked::HostRuns || actor.issued + 1 != sequence {
            return None;
        }
        let held = actor.held.pop_front()?;
        let name = self.host_names.remove(&stream);
        Some(EndedHost { held, name })
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

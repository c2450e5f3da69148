//! Host functions: they run once the tasks before them have completed, on every queue that they come after.
//!
//! A stream whose first task is a host function is parked until then ([`Parked::HostTurn`]). The function runs elsewhere; its stream
//! stays parked until it has ended.

use std::sync::Arc;

use millstream_protocol::id::{Cursor, Point, QueueId};

use super::Scheduler;
use super::actor::Parked;

impl Scheduler {
    /// The first task of a stream is a host function, which waits for its predecessors.
    pub(crate) fn park_on_host(&mut self, stream: u32) {
        self.streams[stream as usize].parked = Parked::HostTurn;
        self.host_turns.push(stream);
    }

    /// Does a host function wait for its predecessors?
    #[inline]
    pub(crate) fn has_host_turns(&self) -> bool {
        !self.host_turns.is_empty()
    }

    /// A stream whose host function has no predecessor any more that has not completed, of those from `from` on; it waits no longer.
    /// The place to go on from comes with it.
    pub(crate) fn next_host_turn(&mut self, mut from: usize) -> Option<(u32, usize)> {
        while let Some(stream) = self.host_turns.get(from).copied() {
            if self.predecessors_have_completed(stream) {
                self.host_turns.swap_remove(from);
                return Some((stream, from));
            }
            from += 1;
        }
        None
    }

    fn predecessors_have_completed(&mut self, stream: u32) -> bool {
        let actor = &self.streams[stream as usize];
        let Some(held) = actor.held.front() else {
            return true;
        };
        let queues = &mut self.queues;
        let last = Point::new(actor.queue, actor.last);
        let mut points = std::iter::once(last).chain(held.after.iter().copied());
        points.all(|point| {
            let state = &mut queues[point.queue.index()];
            state.look();
            state.completed >= point.cursor
        })
    }

    /// The cursor of a queue that the host functions wait for first.
    pub(crate) fn host_wants(&self, queue: QueueId) -> Option<Cursor> {
        let wants = |stream: &u32| {
            let actor = self.streams.get(*stream as usize)?;
            let held = actor.held.front()?;
            let own = (actor.queue == queue).then_some(actor.last);
            let mut after = held.after.iter();
            let after = after.find(|point| point.queue == queue);
            own.into_iter()
                .chain(after.map(|point| point.cursor))
                .filter(|cursor| *cursor > self.queues[queue.index()].completed)
                .max()
        };
        self.host_turns.iter().filter_map(wants).min()
    }

    /// The host function of a stream begins.
    pub(crate) fn host_begins(&mut self, stream: u32, name: Arc<str>) {
        self.host_names.insert(stream, name);
    }

    /// The host function of a stream has ended. Its name, if it had begun.
    pub(crate) fn host_ends(&mut self, stream: u32) -> Option<Arc<str>> {
        self.host_names.remove(&stream)
    }

    /// Does a host function run?
    pub(crate) fn host_runs(&self) -> bool {
        !self.host_names.is_empty()
    }
}

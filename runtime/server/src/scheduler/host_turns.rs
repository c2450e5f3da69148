//! Host functions: they run once the tasks before them have completed, on every queue that they come after.
//!
//! A stream whose first task is a host function is parked until then ([`Parked::HostTurn`]). The function runs elsewhere; its stream
//! stays parked until it has ended.

use std::sync::Arc;

use millstream_protocol::id::{Cursor, Point, QueueId};
use millstream_protocol::message::Rare;

use super::Scheduler;
use super::actor::Parked;
use super::task::HeldTask;

/// A host function whose turn it is.
pub(crate) struct HostTurn {
    pub(crate) stream: u32,
    /// Its place in its stream.
    pub(crate) sequence: u64,
    /// Its task, taken out of the stream.
    pub(crate) held: Box<HeldTask>,
    /// Where to go on among those that wait.
    pub(crate) next: usize,
}

/// A host function that has ended.
pub(crate) struct HostEnd {
    /// Its task, taken out of the stream.
    pub(crate) held: Box<HeldTask>,
    pub(crate) name: Option<Arc<str>>,
}

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

    /// The next host function whose predecessors have completed, among the waiting ones from `from` on. It waits no longer:
    /// its task is taken out of its stream, which stays parked.
    pub(crate) fn next_host_turn(&mut self, mut from: usize) -> Option<HostTurn> {
        while let Some(stream) = self.host_turns.get(from).copied() {
            if !self.predecessors_have_completed(stream) {
                from += 1;
                continue;
            }
            self.host_turns.swap_remove(from);
            let actor = &mut self.streams[stream as usize];
            actor.parked = Parked::HostRuns;
            if let Some(held) = actor.held.pop_front() {
                return Some(HostTurn {
                    stream,
                    sequence: actor.issued + 1,
                    held,
                    next: from,
                });
            }
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
    pub(super) fn host_wants(&self, queue: QueueId) -> Option<Cursor> {
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

    /// The host function whose turn it was begins. What is left of its task is the first of the stream until it has ended.
    pub(crate) fn host_begins(&mut self, stream: u32, held: Box<HeldTask>, name: Arc<str>) {
        self.host_names.insert(stream, name);
        self.put_first_back(stream, held);
    }

    /// The host function that is task `sequence` of a stream has ended. Takes its task out of the stream, and tells its name. None,
    /// if no such function runs.
    pub(crate) fn host_ends(&mut self, stream: u32, sequence: u64) -> Option<HostEnd> {
        let actor = self.get_mut(stream)?;
        if actor.parked != Parked::HostRuns || actor.issued + 1 != sequence {
            return None;
        }
        let held = actor.held.pop_front()?;
        let name = self.host_names.remove(&stream);
        Some(HostEnd { held, name })
    }

    /// The host function of a stream has ended, on a device that is lost or closed.
    pub(crate) fn forget_host(&mut self, stream: u32) {
        self.host_names.remove(&stream);
    }

    /// The host function whose turn it was never begins: its device is lost.
    pub(crate) fn host_never_begins(&mut self, stream: u32) {
        self.forget_host(stream);
        let actor = self.get_mut(stream);
        if let Some(held) = actor.and_then(|actor| actor.held.front_mut()) {
            if let Some(terms) = held.task.terms() {
                terms.never_began_on_host();
            }
            // The terms have counted it: what the stream still holds of it must not end them again.
            held.task.extra = Rare::default();
        }
    }

    /// Does a host function run?
    pub(crate) fn host_runs(&self) -> bool {
        !self.host_names.is_empty()
    }
}

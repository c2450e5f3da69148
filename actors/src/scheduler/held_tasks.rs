//! How a task enters its stream, waits for memory there, and leaves it. Host functions park their streams, too: see
//! below.

use std::collections::VecDeque;
use std::sync::Arc;

use millstream_protocol::{Cursor, Point, QueueId, StreamId, Task, TaskExtras};
use millstream_state::pending::Pending;
use millstream_state::points::Points;

use super::Scheduler;
use super::queue::QueueState;
use super::turns::Turns;
use crate::stream_actor::HeldTask;
use crate::stream_actor::Parked;

/// The most spare blocks: enough for all queues to be full. Further blocks are freed.
const SPARE_BLOCKS_MAX: usize = 4_096;

impl Scheduler {
    /// Takes a block for a task that will be held.
    #[inline]
    pub(crate) fn take_block(&mut self) -> Box<HeldTask> {
        self.spare.pop().unwrap_or_else(HeldTask::empty)
    }

    /// Returns the block of an issued task, whose operation and extra were taken out.
    #[inline]
    pub(crate) fn put_block(&mut self, mut block: Box<HeldTask>) {
        block.after.clear();
        block.awaits.clear();
        if self.spare.len() < SPARE_BLOCKS_MAX {
            self.spare.push(block);
        }
    }

    /// Adds a task to its stream. Returns how many tasks the stream holds now, and the sequence of this one.
    #[inline]
    pub(crate) fn hold(&mut self, stream: u32, held: Box<HeldTask>) -> (usize, u64) {
        let actor = &mut self.streams[stream as usize];
        actor.held.push_back(held);
        self.queues[actor.queue.index()].held += 1;
        self.held += 1;
        let holds = actor.held.len();
        let sequence = actor.issued + holds as u64;
        self.join_turns(stream);
        (holds, sequence)
    }

    /// Returns the first held task of a stream and the queue on which it can be tried, unless the task waits for memory,
    /// for a host function, or for a task of another stream.
    #[inline]
    pub(crate) fn first(&self, stream: u32) -> Option<(QueueId, &HeldTask)> {
        let actor = self.get(stream).filter(|actor| actor.can_issue())?;
        Some((actor.queue, actor.held.front()?))
    }

    /// Takes the first task out of its stream, to be issued or put back. It keeps its place and counts as held until
    /// [`Scheduler::finish`].
    #[inline]
    pub(crate) fn take_first(&mut self, stream: u32) -> Option<Box<HeldTask>> {
        self.streams[stream as usize].held.pop_front()
    }

    /// Puts back the task that was taken out of its stream, as its first.
    pub(crate) fn put_first_back(&mut self, stream: u32, held: Box<HeldTask>) {
        self.streams[stream as usize].held.push_front(held);
    }

    /// Finishes the task that was taken out of its stream and was to run at `point`. Tasks of other streams that
    /// awaited it come after its last point instead. A task that was executed in software has cursor 0. Returns the
    /// sequence of the task and its last point.
    #[inline]
    pub(crate) fn finish(&mut self, stream: u32, point: Point, paid: bool) -> (u64, Point) {
        self.held -= 1;
        let queue = &mut self.queues[point.queue.index()];
        queue.held -= 1;
        // A task may take more than one cursor.
        let cursor = if point.cursor == 0 { 0 } else { queue.issued };
        let last = Point::new(point.queue, cursor);
        let actor = &mut self.streams[stream as usize];
        actor.issued += 1;
        actor.last = actor.last.max(cursor);
        match paid {
            true => actor.release_credit(),
            false => actor.unpaid += 1,
        }
        let sequence = actor.issued;
        if !actor.waiters.is_empty() {
            self.wake_waiters(stream, sequence, last);
        }
        (sequence, last)
    }

    /// Gives back the credit of a task that is done without having been held or issued.
    pub(crate) fn release_credit(&mut self, stream: u32) {
        self.streams[stream as usize].release_credit();
    }

    /// Returns `true` if the stream exists and holds a task.
    pub(crate) fn holds_any(&self, stream: u32) -> bool {
        self.get(stream).is_some_and(|actor| !actor.held.is_empty())
    }

    /// Returns `true` if the stream exists and has not issued its task `sequence`. A dropped stream is removed with its
    /// last task.
    #[inline]
    pub(crate) fn is_held(&self, stream: u32, sequence: u64) -> bool {
        self.get(stream)
            .is_some_and(|actor| actor.issued < sequence)
    }

    /// Returns the sequence of the first held task of a stream.
    pub(crate) fn first_sequence(&self, stream: u32) -> u64 {
        self.stream(stream).issued + 1
    }

    /// Returns `true` if a part of the held task `sequence` of a stream is issued.
    pub(crate) fn has_begun(&self, stream: u32, sequence: u64) -> bool {
        let queue = self.get(stream).map(|actor| self.queue(actor.queue));
        let unfinished = queue.and_then(|queue| queue.unfinished);
        unfinished.is_some_and(|unfinished| unfinished.stream == stream)
            && self.first_sequence(stream) == sequence
    }

    /// Returns the sequence of the next task of a stream.
    #[inline]
    pub(crate) fn next_sequence(&self, stream: u32) -> u64 {
        self.stream(stream).next_sequence()
    }

    /// Returns the sequence of the last task of a stream, issued or held, unless the stream was removed.
    pub(crate) fn last_sequence(&self, stream: u32) -> Option<u64> {
        Some(self.get(stream)?.next_sequence() - 1)
    }

    /// Returns the task `sequence` of a stream, if it is held.
    pub(crate) fn task(&self, stream: u32, sequence: u64) -> Option<&Task> {
        let actor = self.get(stream)?;
        let held = actor.held.get(actor.index_of(sequence)?)?;
        Some(&held.task)
    }

    /// Returns the task `sequence` of a stream, mutable, if it is held. The caller may change its operation; its place
    /// in the order stays.
    pub(crate) fn task_mut(&mut self, stream: u32, sequence: u64) -> Option<&mut Task> {
        let held = self.get_mut(stream)?.held_mut(sequence)?;
        Some(&mut held.task)
    }

    /// Parks a stream: its first task waits for memory.
    pub(crate) fn park_for_memory(&mut self, stream: u32) {
        self.streams[stream as usize].parked = Parked::Memory;
    }

    /// Unparks a stream: its first task can be tried again, or was finished in software. The stream joins the turns of
    /// its queue only in [`Scheduler::resume`].
    pub(crate) fn unpark(&mut self, stream: u32) {
        self.streams[stream as usize].parked = Parked::No;
    }

    // Host functions: they run once the tasks before them have completed, on every queue that they come after.
    //
    // A stream whose first task is a host function is parked until then (`Parked::HostWaits`). The function runs on
    // another thread, and its stream stays parked until it has ended (`Parked::HostRuns`).

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

    // The tasks of a stream that the token of a profile covers.

    /// Starts to cover: `token` covers the tasks that `stream` receives from here on.
    pub(crate) fn cover(&mut self, stream: u32, token: u64) {
        let actor = self.stream_mut(stream);
        actor.covers.insert(token, actor.next_sequence()..u64::MAX);
    }

    /// Ends the cover: `token` does not cover the tasks that `stream` receives from here on. Returns the id of the
    /// stream and the first sequence that is not covered, if the token covers any.
    pub(crate) fn end_cover(&mut self, stream: u32, token: u64) -> Option<(StreamId, u64)> {
        let actor = self.stream_mut(stream);
        let until = actor.next_sequence();
        actor.covers.get_mut(&token)?.end = until;
        Some((actor.id, until))
    }

    /// Removes the cover of `token` from `stream`.
    pub(crate) fn uncover(&mut self, stream: u32, token: u64) {
        self.stream_mut(stream).covers.remove(&token);
    }

    /// Returns `true` if any token covers tasks of `stream`.
    pub(crate) fn is_covered(&self, stream: u32) -> bool {
        !self.stream(stream).covers.is_empty()
    }

    /// Iterates over the tokens that cover task `sequence` of `stream`.
    pub(crate) fn tokens_of(&self, stream: u32, sequence: u64) -> impl Iterator<Item = u64> {
        let covers = self.stream(stream).covers.iter();
        let covering = covers.filter(move |(_, tasks)| tasks.contains(&sequence));
        covering.map(|(token, _)| *token)
    }

    // The end of streams when their device is lost or closed: held tasks are taken out, and credits end.

    /// Ends the credits of all streams, so that callers which wait for credit return (I5). No stream has a turn or waits
    /// for a point afterwards.
    pub(crate) fn end(&mut self) {
        self.waiting_hosts = Pending::default();
        for queue in &mut self.queues {
            queue.turns = Turns::default();
            let stream = queue.unfinished.take().map(|unfinished| unfinished.stream);
            let actor = stream.and_then(|stream| self.streams.get_mut(stream as usize));
            if let Some(held) = actor.and_then(|actor| actor.held.front_mut()) {
                // Its terms have counted it when it began: what is left of it must not end them again.
                held.task.extra = TaskExtras::default();
            }
        }
        for (_, stream) in &mut self.streams {
            stream.credit.end();
            stream.waiters.clear();
        }
    }

    /// Takes out the tasks that a stream holds, in order. Also returns the point of its last issued task.
    pub(crate) fn take_held(&mut self, stream: u32) -> (VecDeque<Box<HeldTask>>, Option<Point>) {
        let actor = &mut self.streams[stream as usize];
        let held = std::mem::take(&mut actor.held);
        self.held -= held.len() as u64;
        self.queues[actor.queue.index()].held -= held.len() as u64;
        (held, actor.last_point())
    }

    /// Returns the point of the last issued task of a stream, whose id may not be linked any more. Searches all
    /// streams.
    pub(crate) fn last_of(&self, id: StreamId) -> Option<Point> {
        let mut streams = self.streams().map(|(_, stream)| stream);
        streams.find(|stream| stream.id == id)?.last_point()
    }
}

//! How a task enters its stream, waits for memory there, and leaves it. Host functions park their streams, too: see
//! `host_functions`.

use millstream_protocol::{Point, QueueId, Task};

use super::Scheduler;
use crate::stream_actor::Parked;
use crate::stream_actor::held_task::HeldTask;

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
}

//! What streams hold: how a task enters its stream, and how it leaves it.

use millstream_protocol::id::{Cursor, Point, QueueId};
use millstream_protocol::message::Task;

use super::Scheduler;
use super::task::HeldTask;

/// Blocks kept for reuse: enough for every queue to be full, beyond it memory goes back.
const SPARE_BLOCKS_MAX: usize = 4_096;

/// What the first held task of a stream can do.
pub(crate) enum First<'a> {
    /// There is none: the stream holds no task, or is gone.
    None,
    /// It waits for memory, for its turn on the host, or for a task of another stream.
    Waits,
    /// It can be tried on this queue.
    Ready(QueueId, &'a HeldTask),
}

/// What a task leaves when it has been issued.
pub(crate) struct Finished {
    /// Its place in its stream.
    pub(crate) sequence: u64,
    /// Where it ends.
    pub(crate) last: Point,
    /// The last handle of its stream is gone.
    pub(crate) stream_dropped: bool,
}

impl Scheduler {
    /// A block for a task that is to be held.
    #[inline]
    pub(crate) fn take_block(&mut self) -> Box<HeldTask> {
        self.spare.pop().unwrap_or_else(HeldTask::empty)
    }

    /// A block of a task that was issued, whose operation and extra are taken out.
    #[inline]
    pub(crate) fn put_block(&mut self, mut block: Box<HeldTask>) {
        block.after.clear();
        block.awaits.clear();
        if self.spare.len() < SPARE_BLOCKS_MAX {
            self.spare.push(block);
        }
    }

    /// A stream holds one task more. How many it holds now, and the sequence of this one.
    #[inline]
    pub(crate) fn hold(&mut self, stream: u32, held: Box<HeldTask>) -> (usize, u64) {
        let actor = &mut self.streams[stream as usize];
        actor.held.push_back(held);
        self.queues[actor.queue.index()].held += 1;
        self.held += 1;
        let holds = actor.held.len();
        let sequence = actor.issued + holds as u64;
        self.join_turn(stream);
        (holds, sequence)
    }

    /// What the first held task of a stream can do.
    #[inline]
    pub(crate) fn first(&self, stream: u32) -> First<'_> {
        let Some(actor) = self.get(stream) else {
            return First::None;
        };
        match actor.held.front() {
            None => First::None,
            Some(first) if actor.can_go() => First::Ready(actor.queue, first),
            Some(_) => First::Waits,
        }
    }

    /// The first held task of a stream, if the stream is there and holds any.
    #[inline]
    pub(crate) fn first_held(&self, stream: u32) -> Option<&HeldTask> {
        self.get(stream)?.held.front().map(|held| &**held)
    }

    /// Takes the first task out of its stream, to be issued or put back. It keeps its place, and counts as held, until
    /// [`Scheduler::finish`].
    #[inline]
    pub(crate) fn take_first(&mut self, stream: u32) -> Option<Box<HeldTask>> {
        self.streams[stream as usize].held.pop_front()
    }

    /// The task that was taken out of its stream is its first one again.
    pub(crate) fn put_first_back(&mut self, stream: u32, held: Box<HeldTask>) {
        self.streams[stream as usize].held.push_front(held);
    }

    /// The task that was taken out of its stream has left it, and was to be at `point`: tasks of other streams that waited
    /// for it come after its end. A task that was done in software has cursor 0.
    #[inline]
    pub(crate) fn finish(&mut self, stream: u32, point: Point, paid: bool) -> Finished {
        self.held -= 1;
        let queue = &mut self.queues[point.queue.index()];
        queue.held -= 1;
        // It may have taken more cursors than its first.
        let cursor = if point.cursor == 0 { 0 } else { queue.issued };
        let last = Point::new(point.queue, cursor);
        let actor = &mut self.streams[stream as usize];
        actor.issued += 1;
        actor.last = actor.last.max(cursor);
        if paid {
            actor.release_credit();
        }
        let finished = Finished {
            sequence: actor.issued,
            last,
            stream_dropped: actor.dropped,
        };
        if !actor.waiters.is_empty() {
            self.wake_waiters(stream, finished.sequence, last);
        }
        finished
    }

    /// A task of a stream that holds none was issued at once, to end at `last`.
    #[inline(always)]
    pub(crate) fn passed_through(&mut self, stream: u32, last: Cursor, paid: bool) {
        let actor = &mut self.streams[stream as usize];
        actor.issued += 1;
        actor.last = last;
        if paid {
            actor.release_credit();
        }
    }

    /// A task of a stream is done without having been held or issued: its credit goes back.
    pub(crate) fn release_credit(&mut self, stream: u32) {
        self.streams[stream as usize].release_credit();
    }

    /// Does a stream hold any task? One that is gone holds none.
    pub(crate) fn holds_any(&self, stream: u32) -> bool {
        self.get(stream).is_some_and(|actor| !actor.held.is_empty())
    }

    /// Has a stream not issued its task `sequence` yet? A dropped stream is gone with its last task.
    #[inline]
    pub(crate) fn is_held(&self, stream: u32, sequence: u64) -> bool {
        self.get(stream)
            .is_some_and(|actor| actor.issued < sequence)
    }

    /// The sequence that the next task of a stream gets.
    #[inline]
    pub(crate) fn next_sequence(&self, stream: u32) -> u64 {
        self.stream(stream).next_sequence()
    }

    /// The sequence of the last task that a stream was given, issued or held, unless the stream is gone.
    pub(crate) fn last_sequence(&self, stream: u32) -> Option<u64> {
        Some(self.get(stream)?.next_sequence() - 1)
    }

    /// The task `sequence` of a stream, if it is held.
    pub(crate) fn task(&self, stream: u32, sequence: u64) -> Option<&Task> {
        let actor = self.get(stream)?;
        let held = actor.held.get(actor.index_of(sequence)?)?;
        Some(&held.task)
    }

    /// The same, to change what it does: its place in the order stays.
    pub(crate) fn task_mut(&mut self, stream: u32, sequence: u64) -> Option<&mut Task> {
        let held = self.get_mut(stream)?.held_mut(sequence)?;
        Some(&mut held.task)
    }
}

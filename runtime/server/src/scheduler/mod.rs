//! Scheduling: which streams there are, what they hold, and which of them goes next on which queue.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`actor`] | a logical stream: the tasks that it holds, and why its first one cannot go yet |
//! | [`queue`] | a physical queue: how far it was issued, and how far it is |
//! | [`turns`] | whose turn it is among the streams of one queue |
//! | `host_turns` | host functions: which waits for what, and which run |
//! | `seats` | on which queue a stream sits |
//! | `waits` | which held tasks come after which, and what becomes of that as they are issued |
//!
//! [`Scheduler`] owns them. It calls no backend and knows no bytes: what conflicts is told by the hazards, and what a task does is
//! the conductor's.

pub(crate) mod actor;
mod host_turns;
pub(crate) mod queue;
mod seats;
pub(crate) mod turns;
mod waits;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use millstream_protocol::id::{Cursor, Point, QueueId};
use millstream_protocol::options::{Settings, Strategy};
use millstream_sync::timeline::Timeline;
use slab::Slab;

use actor::{HeldTask, StreamActor};
use queue::QueueState;
pub(crate) use seats::NewStream;
use turns::Turns;

/// Blocks kept for reuse: enough for every queue to be full, beyond it memory goes back.
const SPARE_BLOCKS_MAX: usize = 4_096;

/// The streams and queues of a device.
pub(crate) struct Scheduler {
    streams: Slab<StreamActor>,
    queues: Vec<QueueState>,
    /// Tasks that streams hold.
    held: u64,
    /// Blocks of tasks that are not in use: a held task costs no allocation.
    #[allow(
        clippy::vec_box,
        reason = "blocks move between streams without being copied"
    )]
    spare: Vec<Box<HeldTask>>,
    /// Streams whose first task is a host function that waits for its predecessors.
    host_turns: Vec<u32>,
    /// Names of the host functions that run, by stream.
    host_names: HashMap<u32, Arc<str>>,
    streams_made: u64,
    strategy: Strategy,
    /// Tasks of one batch.
    batch: usize,
    /// Tasks that a queue has in flight at most.
    depth: u64,
    /// The same where nothing needs it to be less.
    depth_max: u64,
}

/// A go of a stream on its queue.
pub(crate) struct Go {
    pub(crate) stream: u32,
    /// Tasks that it may issue.
    pub(crate) quantum: usize,
    /// Those of them that it has issued already: its go was cut short by a full queue.
    pub(crate) gone: usize,
}

/// What a task leaves when it has been issued.
pub(crate) struct Finished {
    /// Its place in its stream.
    pub(crate) sequence: u64,
    /// Tasks of other streams wait for it.
    pub(crate) is_waited_for: bool,
    /// The last handle of its stream is gone.
    pub(crate) stream_dropped: bool,
}

impl Scheduler {
    /// No streams, on these queues.
    pub(crate) fn new(settings: &Settings, queues: Vec<QueueState>) -> Self {
        Self {
            streams: Slab::new(),
            queues,
            held: 0,
            spare: Vec::new(),
            host_turns: Vec::new(),
            host_names: HashMap::new(),
            streams_made: 0,
            strategy: settings.strategy,
            batch: settings.max_tasks,
            depth: settings.max_in_flight as u64,
            depth_max: settings.max_in_flight as u64,
        }
    }

    /// The stream with this key.
    #[inline(always)]
    pub(crate) fn stream(&self, key: u32) -> &StreamActor {
        &self.streams[key as usize]
    }

    /// The same, to be changed.
    #[inline(always)]
    pub(crate) fn stream_mut(&mut self, key: u32) -> &mut StreamActor {
        &mut self.streams[key as usize]
    }

    /// The stream with this key, unless it is gone.
    #[inline]
    pub(crate) fn get(&self, key: u32) -> Option<&StreamActor> {
        self.streams.get(key as usize)
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut StreamActor> {
        self.streams.get_mut(key as usize)
    }

    /// Is the stream there? One that was dropped is gone with its last task.
    #[inline]
    pub(crate) fn contains(&self, key: u32) -> bool {
        self.streams.contains(key as usize)
    }

    /// Every stream, with its key.
    pub(crate) fn streams(&self) -> impl Iterator<Item = (u32, &StreamActor)> {
        self.streams
            .iter()
            .map(|(key, stream)| (key as u32, stream))
    }

    /// How many streams there are.
    pub(crate) fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// The keys of all streams.
    pub(crate) fn keys(&self) -> Vec<u32> {
        self.streams().map(|(key, _)| key).collect()
    }

    /// A queue.
    #[inline(always)]
    pub(crate) fn queue(&self, queue: QueueId) -> &QueueState {
        &self.queues[queue.index()]
    }

    /// The queues, in the order of their ids.
    #[inline(always)]
    pub(crate) fn queues(&self) -> &[QueueState] {
        &self.queues
    }

    /// The same, with their ids.
    pub(crate) fn numbered_queues(&self) -> impl Iterator<Item = (QueueId, &QueueState)> {
        let numbered = self.queues.iter().enumerate();
        numbered.map(|(index, queue)| (QueueId(index as u8), queue))
    }

    /// The timeline of a queue.
    pub(crate) fn timeline(&self, queue: QueueId) -> &Arc<Timeline> {
        &self.queues[queue.index()].timeline
    }

    /// Tasks that streams hold.
    #[inline(always)]
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Tasks of one batch.
    #[inline]
    pub(crate) fn batch(&self) -> usize {
        self.batch
    }

    /// Tasks that a queue has in flight at most.
    #[inline]
    pub(crate) fn depth(&self) -> u64 {
        self.depth
    }

    /// From here on it has no more than this, nor more than it was made for.
    pub(crate) fn limit_depth(&mut self, tasks: usize) {
        self.depth = self.depth_max.min(tasks as u64);
    }

    /// A block for a task that is to be held.
    #[inline]
    pub(crate) fn take_block(&mut self) -> Box<HeldTask> {
        self.spare.pop().unwrap_or_else(HeldTask::empty)
    }

    /// A block of a task that was issued, without its contents.
    #[inline]
    pub(crate) fn put_block(&mut self, block: Box<HeldTask>) {
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

    /// The first task of a stream has left it, to end at `last`.
    #[inline]
    pub(crate) fn finish(&mut self, stream: u32, last: Point, paid: bool) -> Finished {
        self.held -= 1;
        self.queues[last.queue.index()].held -= 1;
        let actor = &mut self.streams[stream as usize];
        actor.issued += 1;
        actor.last = actor.last.max(last.cursor);
        if paid {
            actor.release_credit();
        }
        Finished {
            sequence: actor.issued,
            is_waited_for: !actor.waiters.is_empty(),
            stream_dropped: actor.dropped,
        }
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

    /// A stream whose first task can be tried is in its queue's turn.
    #[inline]
    pub(crate) fn join_turn(&mut self, stream: u32) {
        let actor = &mut self.streams[stream as usize];
        if !actor.in_turn && actor.can_go() {
            actor.in_turn = true;
            actor.gone = 0;
            let priority = actor.priority();
            self.queues[actor.queue.index()].turn.join(stream, priority);
        }
    }

    /// Does a stream wait for its turn on this queue?
    #[inline]
    pub(crate) fn has_turns(&self, queue: QueueId) -> bool {
        !self.queues[queue.index()].turn.is_empty()
    }

    /// The next go on a queue.
    pub(crate) fn next_go(&mut self, queue: QueueId) -> Option<Go> {
        let stream = self.queues[queue.index()].turn.next()?;
        let quantum = match self.strategy {
            Strategy::Interleave => 1,
            Strategy::Sequential => self.batch,
        };
        let actor = &mut self.streams[stream as usize];
        actor.in_turn = false;
        Some(Go {
            stream,
            quantum: quantum.saturating_mul(actor.weight),
            gone: std::mem::take(&mut actor.gone),
        })
    }

    /// The queue is full: the go is the next one still. A stream has only one place in the turn; what it did in software may have
    /// given it another.
    pub(crate) fn put_back(&mut self, queue: QueueId, stream: u32, gone: usize) {
        let turn = &mut self.queues[queue.index()].turn;
        let actor = &mut self.streams[stream as usize];
        actor.gone = gone;
        if std::mem::replace(&mut actor.in_turn, true) {
            turn.leave(stream);
        }
        turn.put_back(stream, actor.priority());
    }

    /// The place of the next task of a queue.
    #[inline(always)]
    pub(crate) fn next_point(&mut self, queue: QueueId) -> Point {
        let state = &mut self.queues[queue.index()];
        state.issued += 1;
        Point::new(queue, state.issued)
    }

    /// A task takes so many cursors beyond its first.
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

    /// The cursor of a queue that is full at which there is room again.
    pub(crate) fn wants_room(&self, queue: QueueId) -> Option<Cursor> {
        let state = &self.queues[queue.index()];
        let waits = state.full && !state.turn.is_empty();
        waits.then(|| state.completed + (state.in_flight() / 2).max(1))
    }

    /// The device is lost: nothing is held any more, and nothing has a turn.
    pub(crate) fn lose(&mut self) {
        self.held = 0;
        self.host_turns.clear();
        self.spare.clear();
        for queue in &mut self.queues {
            queue.held = 0;
            queue.turn = Turns::default();
        }
    }
}

//! Scheduling: which stream issues next on which queue.
//!
//! [`Scheduler`] owns the [stream actors](crate::stream_actor) and the queues. Each change of them is one of its methods,
//! named after the step; the server sees both through queries. A [`HeldTask`] is what server and scheduler pass to each
//! other. The scheduler calls no backend and knows no bytes: the hazards say which tasks conflict, and the server executes
//! tasks.
//!
//! | module | what it is |
//! | --- | --- |
//! | `queue` | a physical queue: the cursor of its next task, how far it has completed, and whether it has room |
//! | `turns` | when a stream joins the turns of its queue, which has the next one, by priority, and how many tasks it may issue |
//! | `held_tasks` | how a task enters its stream, waits there for memory or for the host, and leaves it; which profiles cover it |
//! | `depth` | how many tasks a queue has in flight, by measured times |
//! | `dependencies` | links between held tasks of different streams, and how they become points |
//! | `queue_assignment` | the queue that a stream is assigned to |
//!
//! # Protocol
//!
//! **Turns.** The streams of a queue that can issue wait in its [`Turns`](turns), one list for each priority. A turn
//! lets a stream issue its quantum: one task (`Interleave`) or one batch (`Sequential`), times its weight. A stream is
//! in the turns of its queue at most once. If it could issue more at the end of its quantum, it joins the turns again,
//! behind the streams of its priority.
//!
//! **Parking.** A stream whose first task waits leaves the turns, and other streams pass it. The four reasons
//! are in the picture of [`stream_actor`](crate::stream_actor). Each link between held tasks leads to an earlier mailbox
//! position, so there is no cycle.
//!
//! **Credit.** A caller takes one credit of its stream for each task that it sends, and waits while there is none
//! (I12). The scheduler gives credit back when tasks are issued, a chunk at a time: at most 32 tasks and at most a
//! quarter of the limit, so a caller that waits finds room before the stream has issued everything. If streams share a
//! credit, a chunk is 1: otherwise a stream could keep back the credit that another stream's caller waits for.
//!
//! # Example: a full queue
//!
//! Streams A and B have weights 2 and 1 and are assigned to the only queue, which may have two tasks in flight. Both
//! hold four tasks. The strategy is `Interleave`, so the quanta are 2 and 1.
//!
//! ```text
//!  step                             issued    turns after it    in flight
//!  next_turn: A, quantum 2          A1, A2    B, A              2
//!  next_turn: B, the queue is full  -         B, A (put_back)   2
//!  ── the device thread sleeps until the queue has completed `room_cursor`, here 1 ──
//!  A1 completes: progress                     B, A              1
//!  next_turn: B, quantum 1          B1        A, B              2
//!  next_turn: A, the queue is full  -         A, B (put_back)   2
//!  A2 completes: progress                     A, B              1
//!  next_turn: A, quantum 2          A3        A, B (put_back)   2             A has issued 1 task of this turn
//!  B1 completes: progress                     A, B              1
//!  next_turn: A, 1 task left        A4        B                 2             the turn is over, and A holds no task
//! ```
//!
//! While a queue is full, a new message issues nothing on it, even if its stream holds a full batch: the room that a
//! full queue regains is handed out by turns alone. Otherwise a stream that keeps sending would take all of it.
//!
//! # What checks it
//!
//! `scheduler/tests.rs` tests each step, and `turns` has a property test that no priority starves.
//! `server/tests/urgency.rs` and `server/tests/order.rs` drive the server with full queues. The mutants
//! `server/moves_busy`, `server/wake_forgotten`, `invariants/i1_stream_reversed`, `invariants/i12_low_priority_starves`
//! and `invariants/i12_one_too_many_in_flight` break this module.

mod dependencies;
mod depth;
mod held_tasks;
mod queue;
mod queue_assignment;
mod turns;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::{ClientId, QueueId, Settings, Strategy};
use slab::Slab;

use crate::stream_actor::HeldTask;
use crate::stream_actor::StreamActor;
use depth::Depth;
use millstream_state::observers::meter::ReadClock;
use millstream_state::pending::Pending;
pub(crate) use queue::{QueueState, Unfinished};
pub(crate) use queue_assignment::Passing;

/// The streams and queues of a device.
pub(crate) struct Scheduler {
    streams: Slab<StreamActor>,
    queues: Vec<QueueState>,
    /// The number of tasks that streams hold.
    held: u64,
    /// Free list of task blocks, so that holding a task allocates nothing (I9).
    #[allow(
        clippy::vec_box,
        reason = "blocks move between streams without being copied"
    )]
    spare: Vec<Box<HeldTask>>,
    /// Streams whose first task is a host function that waits for its dependencies. So a completion costs the host
    /// functions that waited for it, however many others wait. Those that are ready together begin in the order of
    /// the cursors that they waited for.
    waiting_hosts: Pending<u32, true>,
    /// The names of the host functions that run, by stream.
    host_names: HashMap<u32, Arc<str>>,
    streams_made: u64,
    strategy: Strategy,
    /// The number of tasks of a full batch.
    batch_size: usize,
    /// The most tasks that a queue may have in flight while no profile lowers the limit.
    depth_max: u64,
    /// The most tasks that a queue of the driver takes without blocking, also while a profile is open.
    driver_depth: u64,
    /// The time that the tasks in flight of a queue may take together, if there is a clock.
    depth_time: Duration,
    /// Measures how long tasks take. Without a clock every queue has the greatest depth.
    clock: Option<ReadClock>,
}

impl Scheduler {
    /// Creates a scheduler without streams, for these queues. The driver blocks a thread that issues more than
    /// `driver_depth` tasks to one of them.
    pub(crate) fn new(
        settings: &Settings,
        driver_depth: usize,
        mut queues: Vec<QueueState>,
    ) -> Self {
        // A greater depth than the driver takes without blocking would block the device thread.
        let driver_depth = driver_depth as u64;
        let depth_max = driver_depth.min(settings.max_in_flight as u64);
        for queue in &mut queues {
            queue.depth = Depth::fixed(depth_max);
        }
        Self {
            streams: Slab::new(),
            waiting_hosts: Pending::default(),
            queues,
            held: 0,
            spare: Vec::new(),
            host_names: HashMap::new(),
            streams_made: 0,
            strategy: settings.strategy,
            batch_size: settings.max_tasks,
            depth_max,
            driver_depth,
            depth_time: settings.max_in_flight_time,
            clock: None,
        }
    }

    /// Makes the depth of each queue follow the times that its tasks take, by this clock.
    pub(crate) fn set_clock(&mut self, clock: ReadClock) {
        if self.depth_time == Duration::MAX {
            return;
        }
        for queue in &mut self.queues {
            queue.depth.follow(self.depth_time);
        }
        self.clock = Some(clock);
    }

    /// Returns the stream with this key.
    #[inline(always)]
    pub(crate) fn stream(&self, key: u32) -> &StreamActor {
        &self.streams[key as usize]
    }

    /// Returns the stream with this key, mutable.
    #[inline(always)]
    fn stream_mut(&mut self, key: u32) -> &mut StreamActor {
        &mut self.streams[key as usize]
    }

    /// Returns the stream with this key, unless it was removed.
    #[inline]
    fn get(&self, key: u32) -> Option<&StreamActor> {
        self.streams.get(key as usize)
    }

    /// Returns the stream with this key, mutable, unless it was removed.
    #[inline]
    fn get_mut(&mut self, key: u32) -> Option<&mut StreamActor> {
        self.streams.get_mut(key as usize)
    }

    /// Returns `true` if the stream exists. A dropped stream is removed with its last task.
    #[inline]
    pub(crate) fn contains(&self, key: u32) -> bool {
        self.streams.contains(key as usize)
    }

    /// Iterates over the streams and their keys.
    pub(crate) fn streams(&self) -> impl Iterator<Item = (u32, &StreamActor)> {
        self.streams
            .iter()
            .map(|(key, stream)| (key as u32, stream))
    }

    /// Returns the keys of a client's streams.
    pub(crate) fn streams_of_client(&self, client: ClientId) -> Vec<u32> {
        let streams = self.streams();
        let own = streams.filter(|(_, stream)| stream.client == client);
        own.map(|(key, _)| key).collect()
    }

    /// Returns the numbers of the streams with handles.
    pub(crate) fn live_numbers(&self) -> HashSet<u64> {
        let live = self.streams().filter(|(_, stream)| !stream.dropped);
        live.map(|(_, stream)| stream.number).collect()
    }

    /// Returns the number of streams.
    pub(crate) fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// Returns the keys of all streams.
    pub(crate) fn keys(&self) -> Vec<u32> {
        self.streams().map(|(key, _)| key).collect()
    }

    /// Returns the queue that a stream is assigned to.
    #[inline(always)]
    pub(crate) fn queue_of(&self, stream: u32) -> QueueId {
        self.stream(stream).queue
    }

    /// Returns a queue.
    #[inline(always)]
    pub(crate) fn queue(&self, queue: QueueId) -> &QueueState {
        &self.queues[queue.index()]
    }

    /// Iterates over the ids of the queues, in order.
    pub(crate) fn queue_ids(&self) -> impl Iterator<Item = QueueId> + Clone + use<> {
        (0..self.queues.len()).map(|index| QueueId(index as u8))
    }

    /// Iterates over the queues and their ids, in order.
    pub(crate) fn numbered_queues(&self) -> impl Iterator<Item = (QueueId, &QueueState)> {
        let numbered = self.queues.iter().enumerate();
        numbered.map(|(index, queue)| (QueueId(index as u8), queue))
    }

    /// Returns the number of tasks that streams hold.
    #[inline(always)]
    pub(crate) fn held(&self) -> u64 {
        self.held
    }
}

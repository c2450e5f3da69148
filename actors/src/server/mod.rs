//! The compute server: the conductor of the device's modules. The device actor drives it.
//!
//! ```text
//!   admit ──► hazards ──► stream holds ──► flush ──► issue ──► backend
//!                 │ conflict with a held task           │
//!                 └────────► flush that stream's prefix ┘        progress ──► frees, parked tasks
//! ```
//!
//! The server is a plain state machine: no threads, no clocks, no waiting. Work that it cannot do itself leaves it as
//! an [`Effect`]. The hazards, the scheduler, the memory, the observers and the device own the state; the files here
//! call them in order and pass the result of one to the next.
//!
//! | file | what it does |
//! | --- | --- |
//! | `admit` | admits a task: issues it at once, or lets its stream hold it; the properties of an operation that this needs |
//! | `pass` | the shortcut for a task that is ordered with no held task |
//! | `flush` | issues held tasks by strategy, and ends batches |
//! | `issue` | issues the first held task of a stream, in parts if it takes more cursors than its queue has room for |
//! | `call` | the call of the device for one task, and the consequences of its result |
//! | `replay` | the same for a recording |
//! | `reserve` | gets memory for a slice; serves the reservation wait list, and fails a reservation if no memory can return |
//! | `host` | host functions: wait in software, run on another thread |
//! | `progress` | processes completions: memory, parked tasks, slots |
//! | `drops` | removes slices, kernels, recordings and streams, once the mailbox, held tasks and points allow it |
//! | `queries` | control messages: adds slices, kernels, recordings and streams, and answers queries about the device |
//! | `withdrawals` | held tasks that act on their withdrawal before their turn |
//! | `observing` | records the owners of tasks, starts and ends profiles, builds the metrics, logs |
//! | `loss` | answers everything when the device is lost |
//!
//! # Protocol
//!
//! The actor calls in each turn: `admit` for a burst of messages, `process_drops`, `host_finished`, `progress`,
//! `flush_all`, and takes the effects. While it does so:
//!
//! 1. **Admission.** The mailbox is one order, and all hazards are judged in it (I1, I2). `admit_task` either passes a
//!    task through or enters it in the access logs and lets its stream hold it. A conflict with a task that another
//!    stream holds first flushes that stream up to the conflicting task, so held tasks of different streams do not
//!    conflict, except where the other stream is parked. Then the new task keeps a link to it and parks, too.
//! 2. **The pass shortcut.** If no task is held anywhere and the stream is alone on its queue, a task is issued from
//!    its mailbox slot. No log has an entry of a held task then, so there is nothing to flush and nothing to await in
//!    software; and no other stream waits for a turn, so there is nothing to schedule. Waits for other queues are
//!    issued as usual.
//! 3. **Flush.** A stream is flushed if it holds a full batch, if it conflicts with a new task, if a caller requests an
//!    answer, and at the end of a turn. Any order of issue between streams is correct; the strategy chooses it. A full
//!    queue stops a flush, and what does not fit stays in its stream (I12).
//! 4. **Issue.** The task gets the next cursor of its queue. The server issues the waits that no clock implies (I3),
//!    after it has ended the batch of each point that it waits for. It resolves the bindings, calls the device, and
//!    replaces the held entries in the logs by the point. A task that fails, or was withdrawn, takes its place as an
//!    empty task (`mark`) and poisons what it would have written (I6, I7).
//! 5. **Completion.** `progress` reads the timelines, prunes clocks, recycles slots, frees memory, starts host
//!    functions and serves the reservation wait list. `awaited_points` names the points that must wake the device thread
//!    while it sleeps (I5, I11).
//!
//! # Example
//!
//! Streams A and B are assigned to queues q0 and q1. The first task of A is a host function.
//!
//! ```text
//!  mailbox           stream A                         stream B                       calls of the backend
//!  1  A: host f      f starts, A is parked (HostRuns)
//!  2  A: write x     held behind f
//!  3  B: read x      flushed, but A is parked         holds the task, awaits (A, 2)
//!  4  B: write y                                      held behind the read
//!  f has ended       host_finished: f is finished,
//!                    A joins the turns of q0
//!  flush_all         write x is issued                the link becomes (q0, 1),      launch(q0, 1)
//!                                                     B joins the turns of q1        flush(q0, 1)
//!                                                     read x is issued               queue_wait(q1, (q0, 1))
//!                                                                                    launch(q1, 1)
//!                                                     write y is issued              launch(q1, 2), flush(q1, 2)
//! ```
//!
//! A point must be recorded before another queue waits for it: if the batch of q0 were still open, the issue of the
//! wait would end it first.
//!
//! # What checks it
//!
//! `server/tests` drives the server turn by turn on the simulator, which checks every call, and completes a task when a
//! test says so (I1 to I7, I10, I12). The swarm, the soak and the conformance suite run it on whole devices. The mutants in `tests/mutants/server` break it.

mod admit;
mod call;
mod device;
mod drops;
mod flush;
mod host;
mod issue;
mod loss;
mod observing;
mod pass;
mod progress;
mod queries;
mod replay;
mod reserve;
mod withdrawals;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use admit::OpFlags;
use device::Device;
use drops::DeferredDrops;
use millstream_protocol::{
    Backend, BoundSlice, DeferredDrop, HostWork, Op, QueueId, Settings, Stats, Table, Task,
};
use millstream_state::hazards::Hazards;
use millstream_state::memory::Memory;
use millstream_state::objects::Objects;
use millstream_state::observers::Observers;
use millstream_state::observers::log_writer::LogWriter;
use millstream_state::points::Points;
use withdrawals::Withdrawals;

use crate::scheduler::{QueueState, Scheduler};

/// The conductor of a device.
pub struct Server<B: Backend> {
    /// The actors run the backend between the turns.
    pub(crate) device: Device<B>,
    table: Arc<Table>,
    objects: Objects,
    hazards: Hazards,
    scheduler: Scheduler,
    memory: Memory,
    observers: Observers,
    drops: DeferredDrops,
    /// What the actors have to do, in order.
    pub(crate) effects: VecDeque<Effect>,
    withdrawals: Withdrawals,
    /// A held task that will free memory, if reservations wait for it: see `reserve`.
    witness: Option<reserve::Witness>,
    /// The number of tasks that were accepted and will not be issued because the device is lost.
    tasks_lost: u64,
    scratch: Scratch,
}

/// Lists that are filled and emptied within one call, kept so that they need no heap (I9).
#[derive(Default)]
struct Scratch {
    /// The points that a task which passes through comes after.
    after: Points,
    /// The bound ranges of the task that is being issued.
    bound: Vec<BoundSlice>,
    /// The bound ranges of a replay's temporaries.
    inner: Vec<BoundSlice>,
    /// Held tasks of other streams, by stream and sequence.
    foreign: Vec<(u32, u64)>,
}

impl<B: Backend> Server<B> {
    /// Creates the server of an opened backend.
    pub fn new(backend: B, settings: Settings, table: Arc<Table>) -> Self {
        let properties = backend.properties();
        let log = LogWriter::open(properties.backend, &settings);
        let queue_count = properties.queues;
        let queues = (0..queue_count).map(|queue| {
            let serves = properties.queue_priorities.get(queue).copied();
            QueueState::new(backend.timeline(QueueId(queue as u8)).clone(), serves)
        });
        Self {
            objects: Objects::default(),
            hazards: Hazards::new(queue_count),
            scheduler: Scheduler::new(&settings, properties.max_queue_depth, queues.collect()),
            observers: Observers::new(&settings, queue_count),
            memory: Memory::new(
                settings.memory,
                properties.alignment,
                properties.memory_bytes,
            ),
            device: Device::new(backend, log),
            table,
            drops: DeferredDrops::default(),
            effects: VecDeque::new(),
            withdrawals: Withdrawals::default(),
            witness: None,
            tasks_lost: 0,
            scratch: Scratch::default(),
        }
    }

    /// Admits one message, in mailbox order. It leaves nothing to drop in the slot, since the mailbox drops nothing.
    #[inline]
    pub fn admit(&mut self, message: &mut Task) {
        if matches!(message.op, Op::Launch { .. }) && message.extra.is_none() {
            self.admit_task(message, OpFlags::PLAIN_LAUNCH, true);
        } else {
            self.admit_any(message, true);
        }
        debug_assert!(
            message.extra.is_none(),
            "a value that a message leaves in its slot is leaked"
        );
        self.drops.message_admitted();
    }

    /// Admits a message that is no plain launch. Not inlined, as it would take registers from the launches.
    #[inline(never)]
    fn admit_any(&mut self, message: &mut Task, paid: bool) {
        let flags = OpFlags::of(&message.op);
        if flags.has(OpFlags::CONTROL) {
            self.admit_control(message);
        } else {
            self.admit_task(message, flags, paid);
        }
    }

    /// Returns `true` if the submission log is enabled. Then the caller must use [`Server::admit_logged`] instead of
    /// [`Server::admit`]. The caller queries this once for many messages, so that messages pay nothing while the log is
    /// off.
    #[inline]
    pub fn is_logged(&self) -> bool {
        self.device.is_logged()
    }

    /// As [`Server::admit`], and writes the message to the submission log.
    pub fn admit_logged(&mut self, message: &mut Task) {
        if let Some(log) = self.device.log() {
            log.note(message);
        }
        self.admit(message);
    }

    /// Returns `true` if any task has had a deadline. Then the actor must call [`Server::set_time`] in every turn.
    #[inline]
    pub fn wants_time(&self) -> bool {
        self.withdrawals.now.is_some()
    }

    /// Sets the time.
    pub fn set_time(&mut self, now: Instant) {
        self.withdrawals.set_time(now);
    }

    /// Returns `true` if nothing is held, in flight or waiting.
    pub fn is_drained(&self) -> bool {
        if self.is_lost() {
            // Nothing completes any more, but running user code may still end.
            return self.effects.is_empty() && !self.user_code_runs();
        }
        self.effects.is_empty() && self.scheduler.is_drained()
    }

    /// Returns the number of queues with tasks in flight.
    pub fn busy_queues(&self) -> u64 {
        self.last_points().count() as u64
    }

    /// Returns the number of tasks that streams hold.
    pub fn tasks_held(&self) -> u64 {
        self.scheduler.held()
    }

    /// Returns the number of slices with handles.
    pub fn live_slices(&self) -> u64 {
        self.hazards.live() as u64
    }

    /// Returns the counters.
    fn stats(&self) -> Stats {
        let mut stats = self.observers.counters.clone();
        let remains = self.device.gone.remains();
        stats.values_parked = remains.values_parked.get();
        stats.bytes_left = remains.bytes_left.get();
        // Also those that a queue withdrew when they were to begin.
        let faults = self.table.sink().faults.snapshot();
        stats.withdrawn = faults.cancelled + faults.deadline_passed;
        stats.waits_implied = self.hazards.implied;
        stats.streams = self.scheduler.stream_count() as u64;
        stats.tasks_held = self.tasks_held();
        stats.memory = self.memory.pools.usage();
        stats.queues = self.queue_stats();
        stats
    }
}

// Effects: work that leaves the server, for the actors to do on their threads.
//
// The channel to the GC actor is bounded, and the device thread does not wait for it: an effect that finds no room is
// put back to the front, and the GC actor wakes the device thread once it has received. `Server::effects` is a deque and not
// an intrusive list, because values and host functions come in boxes that were allocated when they were made, and the
// deque keeps its capacity: the steady state allocates nothing (I9, `tests/alone/no_heap.rs`).
//
// Host functions and the values of `Stream::drop_after` count towards `max_jobs` (I12). Dropped kernels and recordings
// have no limit: a destructor that blocks the GC actor for ever lets them pile up.

/// Work for the actors.
pub enum Effect {
    /// Run a host function, where its [`HostPlace`](millstream_protocol::HostPlace) says.
    /// [`Server::host_finished`] must be called when its
    /// [`HostDone`](millstream_protocol::HostDone) was dropped.
    Host {
        /// The code.
        work: HostWork,
        /// The resources of its bindings, if it requested them.
        resources: Option<Box<dyn Any + Send>>,
        /// The token for `host_finished`.
        token: HostToken,
    },
    /// Hand this over to the GC actor.
    HandOver(Handover),
}

/// A value that the GC actor drops, and the points that must have passed before.
pub struct Handover {
    /// The points.
    pub after: Points,
    /// The value.
    pub value: DeferredDrop,
    /// When the server gave it up, in nanoseconds; 0 if that is not measured.
    pub since_ns: u64,
}

/// Names a host function that was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostToken {
    stream: u32,
    sequence: u64,
}

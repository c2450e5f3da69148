//! The compute server: decides what runs where and when. The device actor drives it.
//!
//! ```text
//!   admit ──► hazards ──► stream holds ──► flush ──► issue ──► backend
//!                 │ conflict with a held task           │
//!                 └────────► flush its stream's prefix ─┘        progress ──► frees, parked tasks
//! ```
//!
//! | file | what it decides |
//! | --- | --- |
//! | `admit` | what a new task must come after, and when its stream is flushed |
//! | `flush` | in which order held tasks go, by strategy and depth |
//! | `issue` | how the first held task goes to its queue |
//! | `pass` | the short way of a task that has nothing to be ordered with |
//! | `host` | user code: waits in software, runs elsewhere |
//! | `call` | the backend's calls for one task, and what follows from their outcome |
//! | `reserve` | how a slice gets its memory |
//! | `starving` | how the line of those that wait for memory is served, and when one gets none |
//! | `replay` | the same for a recording |
//! | `progress` | what completions set free: memory, parked tasks, slots |
//! | `links` | where a slot of the shared table leads |
//! | `loss` | what becomes of everything when the device is gone |
//! | `objects` | how slices, kernels, recordings and streams come and go |
//! | `asks` | answers about the device itself |
//! | `askers` | which callers are answered before the turn of their tasks, as these were withdrawn |
//! | `noted`, `profiles` | whose task is where; which tasks are a profile's, and when it is complete |
//! | `metered` | which tasks are followed for latencies, and what is told of everything that is counted |
//! | `said` | nothing: it writes the logs |
//!
//! The server is a plain state machine: no threads, no clocks, no waiting. What it cannot do itself
//! leaves it as an [`Effect`]. All hazards are judged in the order in which tasks are admitted,
//! which is the mailbox's (I1, I2).

mod admit;
mod askers;
mod asks;
mod call;
mod dropping;
mod drops;
mod flush;
mod host;
mod issue;
mod links;
mod loss;
mod metered;
mod noted;
mod objects;
mod pass;
mod profiles;
mod progress;
mod replay;
mod reserve;
mod said;
mod starving;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use askers::Askers;
use dropping::Drops;
use links::Links;
use loss::Loss;
use millstream_protocol::backend::{Backend, BoundSlice};
use millstream_protocol::id::{ClientId, Point, QueueId};
use millstream_protocol::leaving::Leaving;
use millstream_protocol::message::{HostWork, Op, Task};
use millstream_protocol::options::Settings;
use millstream_protocol::report::Stats;
use millstream_protocol::table::Table;
use objects::{PreparedKernel, StoredRecording};
use slab::Slab;

use crate::hazard::points::Points;
use crate::memory::Memory;
use crate::observers::Observers;
use crate::observers::journal::Journal;
use crate::scheduler::Scheduler;
use crate::scheduler::queue::QueueState;
use crate::slice::Slice;

/// What the server wants done elsewhere.
pub enum Effect {
    /// Run user code on a thread for such; tell [`Server::host_finished`] when its end was dropped.
    Host {
        /// The code.
        work: HostWork,
        /// The resources of its bindings, if it asked for them.
        resources: Option<Box<dyn Any + Send>>,
        /// What to hand back.
        token: HostToken,
    },
    /// Drop this value, off the device thread, once the points have passed.
    Collect {
        /// The value.
        value: Leaving,
        /// When.
        after: Points,
    },
    /// Wake the device thread once this point has passed: freed memory waits for it.
    Watch(Point),
}

/// Which host function ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostToken {
    stream: u32,
    sequence: u64,
}

/// The deciding half of a device.
pub struct Server<B: Backend> {
    backend: B,
    options: Settings,
    table: Arc<Table>,
    links: Links,
    slices: Slab<Slice>,
    kernels: Slab<PreparedKernel>,
    recordings: Slab<StoredRecording>,
    scheduler: Scheduler,
    /// Clients that have a slot and had a stream.
    clients: Slab<ClientId>,
    memory: Memory,
    drops: Drops,
    effects: VecDeque<Effect>,
    /// Scratch: points that a task passing through comes after, the bindings of the task being
    /// issued, those of one recorded task and its scalars, and foreign streams to flush.
    after: Vec<Point>,
    bound: Vec<BoundSlice>,
    inner: Vec<BoundSlice>,
    patched: Vec<u64>,
    foreign: Vec<(u32, u64)>,
    /// The time, if any task has had a deadline.
    now: Option<Instant>,
    wants_time: bool,
    observers: Observers,
    /// Callers that wait for held tasks which may be withdrawn.
    askers: Askers,
    names: OpNames,
    /// Values that left as effects, to be dropped.
    values_handed_over: u64,
    loss: Loss,
    /// The device is closed, and nothing is issued any more.
    is_abandoned: bool,
    /// Slices that got memory when a task defined them anew.
    #[cfg(test)]
    reserved_again: std::collections::HashSet<millstream_protocol::id::SliceId>,
}

/// Names of operations without a kernel, as shared strings, so that issuing one allocates nothing.
struct OpNames {
    copy_in: Arc<str>,
    copy_out: Arc<str>,
    copy: Arc<str>,
    fill: Arc<str>,
    other: Arc<str>,
    reserve: Arc<str>,
    replay: Arc<str>,
    parameter: Arc<str>,
}

impl<B: Backend> Server<B> {
    /// The server of an opened backend.
    pub fn new(backend: B, options: Settings, table: Arc<Table>) -> Self {
        let properties = backend.properties();
        let mut options = options;
        // Deeper than the driver takes without blocking would block the device thread.
        options.max_in_flight = options.max_in_flight.min(properties.max_queue_depth);
        let journal = (options.journal_bytes_max > 0)
            .then(|| Box::new(Journal::new(properties.backend, options.journal_bytes_max)));
        let queue_count = properties.queues;
        let observers = Observers::new(&options, queue_count);
        let memory = Memory::new(
            options.memory.clone(),
            properties.alignment,
            properties.memory_bytes,
        );
        let queues = (0..queue_count)
            .map(|queue| {
                let serves = properties.queue_priorities.get(queue).copied();
                QueueState::new(backend.timeline(QueueId(queue as u8)).clone(), serves)
            })
            .collect();
        let scheduler = Scheduler::new(&options, queues);
        Self {
            backend,
            options,
            table,
            links: Links::default(),
            slices: Slab::new(),
            kernels: Slab::new(),
            recordings: Slab::new(),
            clients: Slab::new(),
            scheduler,
            memory,
            drops: Drops::new(queue_count),
            effects: VecDeque::new(),
            after: Vec::new(),
            bound: Vec::new(),
            inner: Vec::new(),
            patched: Vec::new(),
            foreign: Vec::new(),
            now: None,
            wants_time: false,
            observers,
            askers: Askers::default(),
            names: OpNames {
                copy_in: "copy in".into(),
                copy_out: "copy out".into(),
                copy: "copy".into(),
                fill: "fill".into(),
                other: "task".into(),
                reserve: "reserve".into(),
                replay: "replay".into(),
                parameter: "parameter".into(),
            },
            values_handed_over: 0,
            loss: Loss::new(Arc::default(), journal),
            is_abandoned: false,
            #[cfg(test)]
            reserved_again: Default::default(),
        }
    }

    /// Takes one message, in mailbox order. The slot is left with nothing to be dropped: the mailbox does not.
    #[inline]
    pub fn admit(&mut self, message: &mut Task) {
        match &message.op {
            Op::Launch { .. } | Op::Mark | Op::Replay(_) => {
                if !self.pass_plain(message) {
                    self.admit_task(message);
                }
            }
            Op::Taken => {}
            Op::Ask(_) | Op::Register(_) | Op::Flush => self.admit_order(message),
            _ => self.admit_task(message),
        }
        debug_assert!(message.extra.is_none(), "what a message leaves is leaked");
        self.drops.pass();
    }

    /// Is it logged what is admitted? Then [`Server::admit_logged`] is to be called instead: asked once for many
    /// messages, so that those that are not logged pay nothing.
    #[inline]
    pub fn is_logged(&self) -> bool {
        self.loss.journal.is_some()
    }

    /// As [`Server::admit`], and logs it.
    pub fn admit_logged(&mut self, message: &mut Task) {
        if let Some(journal) = &mut self.loss.journal {
            journal.note(message);
        }
        self.admit(message);
    }

    /// The backend.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// The backend, for what the actors do with it.
    pub fn backend_mut(&mut self) -> &mut B {
        &mut self.backend
    }

    /// Has any task had a deadline? Then the server is to be told the time at every turn.
    #[inline]
    pub fn wants_time(&self) -> bool {
        self.wants_time
    }

    /// It is `now`.
    pub fn tell_time(&mut self, now: Instant) {
        self.now = self.now.max(Some(now));
    }

    /// The next effect to carry out.
    pub fn take_effect(&mut self) -> Option<Effect> {
        let effect = self.effects.pop_front();
        self.values_handed_over += u64::from(matches!(effect, Some(Effect::Collect { .. })));
        effect
    }

    /// Puts back an effect that cannot be carried out now.
    pub fn return_effect(&mut self, effect: Effect) {
        self.values_handed_over -= u64::from(matches!(effect, Effect::Collect { .. }));
        self.effects.push_front(effect);
    }

    /// Is nothing held, in flight or waiting?
    pub fn is_drained(&self) -> bool {
        if self.is_lost() {
            // Nothing completes any more; user code that runs may still end.
            return self.effects.is_empty() && !self.user_code_runs();
        }
        self.effects.is_empty() && self.scheduler.is_drained()
    }

    /// Queues with work in flight.
    pub fn busy_queues(&self) -> u64 {
        self.last_points().count() as u64
    }

    /// Tasks that streams hold.
    pub fn tasks_held(&self) -> u64 {
        self.scheduler.held()
    }

    /// Slices that live.
    pub fn live_slices(&self) -> u64 {
        self.slices
            .iter()
            .filter(|(_, slice)| !slice.dropped)
            .count() as u64
    }

    /// The counters, as an answer.
    fn stats(&self) -> Stats {
        let mut stats = self.observers.counters().clone();
        (stats.values_parked, stats.bytes_left) = self.loss.gone.remains();
        stats.streams = self.scheduler.stream_count() as u64;
        stats.tasks_held = self.tasks_held();
        stats.memory = self.memory_usage();
        stats.queues = self.queue_stats();
        stats
    }
}

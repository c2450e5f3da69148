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
//! | `hungry` | who waits for memory, and who of them gets it |
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
mod drops;
mod flush;
mod host;
mod hungry;
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

#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use slab::Slab;

use crate::backend::{Backend, BoundSlice};
use crate::handle::Table;
use crate::hazard::points::Points;
use crate::id::{ClientId, Point, QueueId};
use crate::journal::Journal;
use crate::memory::{Accounts, Pools};
use crate::message::{HostWork, Op, Task};
use crate::metrics::{Histogram, Meter};
use crate::options::{DeviceOptions, Strategy};
use crate::releases::Leaving;
use crate::report::Stats;
use crate::slice::Slice;
use crate::stream::actor::{HeldTask, StreamActor};
use crate::stream::queue::QueueState;

use askers::Askers;
use links::Links;
use loss::Loss;
use metered::Sampling;
use noted::Noted;
use objects::{PreparedKernel, StoredRecording};
use profiles::Profiles;

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

/// Counters that the server keeps as it goes.
#[derive(Default)]
struct Counters {
    tasks: u64,
    batches: u64,
    launches: u64,
    waits_issued: u64,
    waits_implied: u64,
    tasks_parked: u64,
    failures: u64,
    withdrawn: u64,
    soft_limit_crossings: u64,
}

/// The deciding half of a device.
pub struct Server<B: Backend> {
    backend: B,
    options: DeviceOptions,
    table: Arc<Table>,
    links: Links,
    slices: Slab<Slice>,
    kernels: Slab<PreparedKernel>,
    recordings: Slab<StoredRecording>,
    streams: Slab<StreamActor>,
    /// Clients that have a slot and had a stream.
    clients: Slab<ClientId>,
    queues: Vec<QueueState>,
    pools: Pools,
    accounts: Accounts,
    /// Streams whose first task waits for memory, in the order in which they get it.
    hungry: VecDeque<u32>,
    /// Clean bytes that later reservations may still take while some stream is hungry.
    hungry_budget: u64,
    /// Streams whose first task is a host function that waits for its predecessors.
    host_turns: Vec<u32>,
    /// Names of the host functions that run, by stream.
    host_names: HashMap<u32, Arc<str>>,
    /// Dropped slices that streams still hold tasks on.
    dropped_in_use: usize,
    /// Messages admitted: the position up to which drops can be honoured.
    messages: u64,
    /// Drops that the mailbox has not passed yet: slot and stamp.
    early_drops: VecDeque<(u32, u64)>,
    effects: VecDeque<Effect>,
    /// Blocks of tasks that are not in use: a held task costs no allocation.
    #[allow(
        clippy::vec_box,
        reason = "blocks move between streams without being copied"
    )]
    spare: Vec<Box<HeldTask>>,
    /// Scratch: points that a task passing through comes after, the bindings of the task being
    /// issued, those of one recorded task and its scalars, and foreign streams to flush.
    after: Vec<Point>,
    bound: Vec<BoundSlice>,
    inner: Vec<BoundSlice>,
    patched: Vec<u64>,
    foreign: Vec<(u32, u64)>,
    /// Tasks that streams hold.
    tasks_held: u64,
    /// The time, if any task has had a deadline.
    now: Option<Instant>,
    wants_time: bool,
    streams_made: u64,
    /// Does anybody want to know whose task is where: the timeline, a profile, or who samples latencies?
    notes_tasks: bool,
    trace: VecDeque<Noted>,
    /// Callers that wait for held tasks which may be withdrawn.
    askers: Askers,
    /// Which tasks waited for which, for the timeline.
    traced_waits: VecDeque<(Point, Point)>,
    profiles: Profiles,
    /// Tasks that a queue has in flight while no spans are recorded for profiles.
    in_flight_max: usize,
    names: OpNames,
    counters: Counters,
    batch_sizes: Histogram,
    /// None while no latencies are sampled.
    sampling: Option<Box<Sampling>>,
    meter: Arc<Meter>,
    /// Values that left as effects, to be dropped.
    values_handed_over: u64,
    loss: Loss,
    /// Slices that got memory when a task defined them anew.
    #[cfg(test)]
    reserved_again: std::collections::HashSet<crate::id::SliceId>,
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

/// Blocks kept for reuse: enough for every queue to be full, beyond it memory goes back.
const SPARE_BLOCKS_MAX: usize = 4_096;

impl<B: Backend> Server<B> {
    /// The server of an opened backend.
    pub fn new(backend: B, options: DeviceOptions, table: Arc<Table>) -> Self {
        let properties = backend.properties();
        let mut options = options;
        // Deeper than the driver takes without blocking would block the device thread.
        options.max_in_flight = options.max_in_flight.min(properties.max_queue_depth);
        let journal = (options.journal_bytes_max > 0)
            .then(|| Box::new(Journal::new(properties.backend, options.journal_bytes_max)));
        let queue_count = properties.queues;
        let in_flight_max = options.max_in_flight;
        let notes_tasks = options.trace_capacity > 0 || options.latencies_every > 0;
        let sampling = Sampling::new(options.latencies_every);
        let pools = Pools::new(options.memory.clone(), properties.alignment);
        let queues = (0..queue_count)
            .map(|queue| {
                let serves = properties.queue_priorities.get(queue).copied();
                QueueState::new(backend.timeline(QueueId(queue as u8)).clone(), serves)
            })
            .collect();
        Self {
            backend,
            options,
            table,
            links: Links::default(),
            slices: Slab::new(),
            kernels: Slab::new(),
            recordings: Slab::new(),
            clients: Slab::new(),
            streams: Slab::new(),
            queues,
            pools,
            accounts: Accounts::default(),
            hungry: VecDeque::new(),
            hungry_budget: 0,
            host_turns: Vec::new(),
            host_names: HashMap::new(),
            dropped_in_use: 0,
            messages: 0,
            early_drops: VecDeque::new(),
            effects: VecDeque::new(),
            spare: Vec::new(),
            after: Vec::new(),
            bound: Vec::new(),
            inner: Vec::new(),
            patched: Vec::new(),
            foreign: Vec::new(),
            tasks_held: 0,
            now: None,
            wants_time: false,
            streams_made: 0,
            notes_tasks,
            in_flight_max,
            trace: VecDeque::new(),
            askers: Askers::default(),
            traced_waits: VecDeque::new(),
            profiles: Profiles::new(queue_count),
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
            counters: Counters::default(),
            batch_sizes: Histogram::new(),
            sampling,
            meter: Meter::new(),
            values_handed_over: 0,
            loss: Loss::new(Arc::default(), journal),
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
        self.messages += 1;
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
        self.tasks_held() == 0
            && self.effects.is_empty()
            && self
                .queues
                .iter()
                .all(|queue| queue.issued == queue.completed)
    }

    /// Queues with work in flight.
    pub fn busy_queues(&self) -> u64 {
        self.last_points().count() as u64
    }

    /// Tasks that streams hold.
    pub fn tasks_held(&self) -> u64 {
        self.tasks_held
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
        let counters = &self.counters;
        let (values_parked, bytes_left) = self.loss.gone.remains();
        Stats {
            tasks: counters.tasks,
            batches: counters.batches,
            launches: counters.launches,
            waits_issued: counters.waits_issued,
            waits_implied: counters.waits_implied,
            tasks_parked: counters.tasks_parked,
            failures: counters.failures,
            withdrawn: counters.withdrawn,
            soft_limit_crossings: counters.soft_limit_crossings,
            values_parked,
            bytes_left,
            streams: self.streams.len() as u64,
            tasks_held: self.tasks_held(),
            memory: self.memory_usage(),
            queues: self.queue_stats(),
        }
    }

    #[inline]
    fn strategy(&self) -> Strategy {
        self.options.strategy
    }
}

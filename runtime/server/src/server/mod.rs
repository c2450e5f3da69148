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
//! | `admit` | whether a new task passes through or is held, and when its stream is flushed |
//! | `flush` | in which order held tasks go, by strategy and depth |
//! | `issue` | how the first held task goes to its queue |
//! | `traits` | what an operation is to admission, in one byte |
//! | `pass` | the short way of a task that is ordered with no held task |
//! | `host` | user code: waits in software, runs elsewhere |
//! | `call` | the backend's calls for one task, and what follows from their outcome |
//! | `reserve` | how a slice gets its memory |
//! | `starving` | how the line of those that wait for memory is served, and when one gets none |
//! | `replay` | the same for a recording |
//! | `progress` | what completions set free: memory, parked tasks, slots |
//! | `loss` | what becomes of everything when the device is gone |
//! | `registering`, `drops` | how slices, kernels, recordings and streams come and go |
//! | `dropping` | what is on its way to be dropped |
//! | `effects` | what is to be done elsewhere |
//! | `asks` | answers about the device itself |
//! | `askers` | which callers are answered before the turn of their tasks, as these were withdrawn |
//! | `noted`, `profiles` | whose task is where; which tasks are a profile's, and when it is complete |
//! | `metered` | which tasks are followed for latencies, and what is told of everything that is counted |
//! | `said` | nothing: it writes the logs |
//!
//! The server is a plain state machine: no threads, no clocks, no waiting. What it cannot do itself
//! leaves it as an [`Effect`]. All hazards are judged in the order in which tasks are admitted,
//! which is the mailbox's (I1, I2). What is known of the device is its machines': hazards, scheduler, memory and observers; what
//! is here conducts them.

mod admit;
mod askers;
mod asks;
mod call;
mod dropping;
mod drops;
mod effects;
mod flush;
mod host;
mod issue;
mod loss;
mod metered;
mod noted;
mod pass;
mod profiles;
mod progress;
mod registering;
mod replay;
mod reserve;
mod said;
mod starving;
mod traits;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use askers::Askers;
use dropping::Drops;
use effects::Effects;
pub use effects::{Effect, HostToken};
use millstream_protocol::backend::{Backend, BoundSlice};
use millstream_protocol::id::{Point, QueueId};
use millstream_protocol::message::{Op, Task};
use millstream_protocol::options::Settings;
use millstream_protocol::report::Stats;
use millstream_protocol::table::Table;
use traits::Traits;

use crate::device::Device;
use crate::hazards::Hazards;
use crate::memory::Memory;
use crate::objects::Objects;
use crate::observers::Observers;
use crate::observers::journal::Journal;
use crate::scheduler::{QueueState, Scheduler};

/// The deciding half of a device.
pub struct Server<B: Backend> {
    device: Device<B>,
    table: Arc<Table>,
    objects: Objects,
    hazards: Hazards,
    scheduler: Scheduler,
    memory: Memory,
    observers: Observers,
    drops: Drops,
    effects: Effects,
    askers: Askers,
    /// Tasks that were accepted and will not be issued, as the device is lost.
    tasks_lost: u64,
    scratch: Scratch,
    /// Slices that got memory when a task defined them anew.
    #[cfg(test)]
    reserved_again: std::collections::HashSet<millstream_protocol::id::SliceId>,
}

/// Lists that are filled and emptied within one call, kept so that it takes no heap (I9).
#[derive(Default)]
struct Scratch {
    /// Points that a task which passes through comes after.
    after: Vec<Point>,
    /// The bindings of the task that is being issued.
    bound: Vec<BoundSlice>,
    /// Those of a replay's temporaries.
    inner: Vec<BoundSlice>,
    /// Held tasks of other streams, by stream and sequence.
    foreign: Vec<(u32, u64)>,
}

impl<B: Backend> Server<B> {
    /// The server of an opened backend.
    pub fn new(backend: B, mut settings: Settings, table: Arc<Table>) -> Self {
        let properties = backend.properties();
        // Deeper than the driver takes without blocking would block the device thread.
        settings.max_in_flight = settings.max_in_flight.min(properties.max_queue_depth);
        let log = (settings.journal_bytes_max > 0)
            .then(|| Box::new(Journal::new(properties.backend, settings.journal_bytes_max)));
        let queue_count = properties.queues;
        let queues = (0..queue_count).map(|queue| {
            let serves = properties.queue_priorities.get(queue).copied();
            QueueState::new(backend.timeline(QueueId(queue as u8)).clone(), serves)
        });
        Self {
            objects: Objects::new(),
            hazards: Hazards::new(queue_count),
            scheduler: Scheduler::new(&settings, queues.collect()),
            observers: Observers::new(&settings, queue_count),
            memory: Memory::new(
                settings.memory,
                properties.alignment,
                properties.memory_bytes,
            ),
            device: Device::new(backend, log),
            table,
            drops: Drops::new(queue_count),
            effects: Effects::default(),
            askers: Askers::default(),
            tasks_lost: 0,
            scratch: Scratch::default(),
            #[cfg(test)]
            reserved_again: Default::default(),
        }
    }

    /// Takes one message, in mailbox order. The slot is left with nothing to be dropped: the mailbox does not.
    #[inline]
    pub fn admit(&mut self, message: &mut Task) {
        // Nearly every message is a launch or a point: with no traits, the tests for them are left out.
        if matches!(message.op, Op::Launch { .. } | Op::Mark) {
            self.admit_task(message, Traits::NONE, true);
        } else {
            self.admit_any(message);
        }
        debug_assert!(message.extra.is_none(), "what a message leaves is leaked");
        self.drops.pass();
    }

    fn admit_any(&mut self, message: &mut Task) {
        let traits = Traits::of(&message.op);
        if traits.has(Traits::ORDER) {
            self.admit_order(message);
        } else {
            self.admit_task(message, traits, true);
        }
    }

    /// Is it logged what is admitted? Then [`Server::admit_logged`] is to be called instead: asked once for many
    /// messages, so that those that are not logged pay nothing.
    #[inline]
    pub fn is_logged(&self) -> bool {
        self.device.is_logged()
    }

    /// As [`Server::admit`], and logs it.
    pub fn admit_logged(&mut self, message: &mut Task) {
        if let Some(log) = self.device.log() {
            log.note(message);
        }
        self.admit(message);
    }

    /// The backend.
    pub fn backend(&self) -> &B {
        self.device.backend()
    }

    /// The backend, for what the actors do with it.
    pub fn backend_mut(&mut self) -> &mut B {
        self.device.backend_mut()
    }

    /// Has any task had a deadline? Then the server is to be told the time at every turn.
    #[inline]
    pub fn wants_time(&self) -> bool {
        self.askers.wants_time()
    }

    /// It is `now`.
    pub fn tell_time(&mut self, now: Instant) {
        self.askers.tell_time(now);
    }

    /// The next effect to carry out.
    pub fn take_effect(&mut self) -> Option<Effect> {
        self.effects.take()
    }

    /// Puts back an effect that cannot be carried out now.
    pub fn return_effect(&mut self, effect: Effect) {
        self.effects.put_back(effect);
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
        self.hazards.live() as u64
    }

    /// The counters, as an answer.
    fn stats(&self) -> Stats {
        let mut stats = self.observers.counters().clone();
        (stats.values_parked, stats.bytes_left) = self.device.gone().remains();
        stats.waits_implied = self.hazards.implied();
        stats.streams = self.scheduler.stream_count() as u64;
        stats.tasks_held = self.tasks_held();
        stats.memory = self.memory_usage();
        stats.queues = self.queue_stats();
        stats
    }
}

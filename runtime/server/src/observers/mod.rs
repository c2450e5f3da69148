//! Observers: what is noted of tasks for those who look at a device, and nothing that decides.
//!
//! | module | what is noted |
//! | --- | --- |
//! | `profiles`, `profile_sums`, `interval_union` | the tasks of each profile, and what they took, in bounded memory |
//! | `trace` | whose task is where and what it waited for, until the backend says when it ran |
//! | `sampling`, [`meter`] | how long sampled tasks waited and ran |
//! | `log_writer` | every message, as the submission log |
//!
//! `Observers` owns all but the log, which ends with the device ([`Loss`](crate::server)). Counters are adds; with nobody looking a task
//! pays for these, for one load and for one branch.

mod interval_union;
pub(crate) mod log_writer;
pub mod meter;
mod profile_sums;
pub(crate) mod profiles;
pub(crate) mod sampling;
pub(crate) mod trace;

use std::sync::Arc;

use millstream_protocol::backend::Span;
use millstream_protocol::id::Point;
use millstream_protocol::message::Op;
use millstream_protocol::metrics::{Histogram, Latencies};
use millstream_protocol::options::{Logs, Settings};
use millstream_protocol::report::Stats;

use meter::Meter;
use profiles::Profiles;
use sampling::{NOT_FOLLOWED, Sampling};
use trace::Trace;

/// What is noted of the tasks of a device.
pub(crate) struct Observers {
    counters: Stats,
    batch_sizes: Histogram,
    logs: Logs,
    trace: Trace,
    profiles: Profiles,
    /// None while no latencies are sampled.
    sampling: Option<Box<Sampling>>,
    meter: Arc<Meter>,
    /// Does anyone want to know whose task is where: the timeline, a profile, or the sampling?
    notes_tasks: bool,
    mailbox_capacity: usize,
    profile_spans: usize,
}

impl Observers {
    pub(crate) fn new(settings: &Settings, queues: usize) -> Self {
        let mut observers = Self {
            counters: Stats::default(),
            batch_sizes: Histogram::new(),
            logs: settings.logs,
            trace: Trace::new(settings.trace_capacity),
            profiles: Profiles::new(queues, settings.profile_tasks),
            sampling: Sampling::new(settings.latencies_every),
            meter: Meter::new(),
            notes_tasks: false,
            mailbox_capacity: settings.mailbox_capacity,
            profile_spans: settings.profile_spans,
        };
        observers.update_notes_tasks();
        observers
    }

    /// Measures with the other threads of the device from here on.
    pub(crate) fn measure_with(&mut self, meter: Arc<Meter>) {
        self.meter = meter;
    }

    /// What is logged through `tracing`.
    #[inline]
    pub(crate) fn logs(&self) -> &Logs {
        &self.logs
    }

    /// The counters.
    #[inline]
    pub(crate) fn counters(&self) -> &Stats {
        &self.counters
    }

    /// The same, to be counted on.
    #[inline]
    pub(crate) fn count(&mut self) -> &mut Stats {
        &mut self.counters
    }

    /// A queue was given this many tasks together.
    #[inline]
    pub(crate) fn count_batch(&mut self, tasks: u64) {
        self.counters.batches += 1;
        self.batch_sizes.record(tasks);
    }

    /// How many tasks queues were given together, batch by batch.
    pub(crate) fn batch_sizes(&self) -> &Histogram {
        &self.batch_sizes
    }

    /// The task that is to be at `place` waits for another, on the device.
    #[inline]
    pub(crate) fn count_wait(&mut self, place: Point, waited_for: Point) {
        self.counters.waits_issued += 1;
        self.trace.note_wait(place, waited_for);
    }

    /// Does anyone want to know whose task is where?
    #[inline]
    pub(crate) fn note_tasks(&self) -> bool {
        self.notes_tasks
    }

    /// Does anyone want to know when tasks run: the timeline, a profile?
    pub(crate) fn note_spans(&self) -> bool {
        self.trace.is_on() || self.profiles.is_recording()
    }

    /// The timeline.
    pub(crate) fn trace(&mut self) -> &mut Trace {
        &mut self.trace
    }

    /// The profiles.
    #[inline]
    pub(crate) fn profiles(&self) -> &Profiles {
        &self.profiles
    }

    /// The same, to be changed.
    pub(crate) fn profiles_mut(&mut self) -> &mut Profiles {
        &mut self.profiles
    }

    /// Takes what the backend has recorded: for the profiles, and of a device with a timeline for that, too.
    pub(crate) fn add_spans(&mut self, mut spans: Vec<Span>) {
        self.trace.keep(&spans);
        spans.sort_unstable_by_key(|span| (span.point.queue.0, span.point.cursor));
        self.profiles.add_spans(&spans);
    }

    /// Whether the backend is to record spans for profiles, where that has changed.
    pub(crate) fn recording_change(&mut self) -> Option<bool> {
        let changed = self.profiles.recording_change();
        self.update_notes_tasks();
        changed
    }

    fn update_notes_tasks(&mut self) {
        self.notes_tasks = self.note_spans() || self.sampling.is_some();
    }

    /// A task is about to be held: when, if it is to be followed.
    #[inline]
    pub(crate) fn admitted_ns(&mut self, op: &Op) -> u64 {
        let Some(sampling) = &mut self.sampling else {
            return NOT_FOLLOWED;
        };
        match does_work(op) && sampling.is_next() {
            true => self.meter.now_ns(),
            false => NOT_FOLLOWED,
        }
    }

    /// Is a task followed, which was admitted then and is about to be issued?
    #[inline]
    pub(crate) fn is_followed(&mut self, op: &Op, admitted_ns: u64) -> bool {
        let sampling = self.sampling.as_mut();
        sampling.is_some_and(|sampling| sampling.follows(does_work(op), admitted_ns))
    }

    /// Follows a task that was admitted then and ends at `last`, where `timeline` publishes it.
    pub(crate) fn follow(
        &mut self,
        timeline: &Arc<millstream_sync::timeline::Timeline>,
        last: u64,
        admitted_ns: u64,
    ) {
        if let Some(sampling) = &mut self.sampling {
            sampling.follow(&self.meter, timeline, last, admitted_ns);
        }
    }

    /// A slice that was dropped begins to wait: when, if that is timed.
    pub(crate) fn now_ns(&self) -> u64 {
        self.meter.now_ns()
    }

    /// A slice that waited since then, if it did, is free.
    pub(crate) fn slice_waited(&mut self, since_ns: u64) {
        if let Some(sampling) = &mut self.sampling
            && since_ns != NOT_FOLLOWED
        {
            sampling.slice_waited(self.meter.now_ns().saturating_sub(since_ns));
        }
    }

    /// Messages that the mailbox has room for.
    pub(crate) fn mailbox_capacity(&self) -> u64 {
        self.mailbox_capacity.next_power_of_two() as u64
    }

    /// Spans that profiles have room for.
    pub(crate) fn profile_spans(&self) -> usize {
        self.profile_spans
    }

    /// Values that the GC actor has dropped, or keeps for ever.
    pub(crate) fn values_done(&self) -> u64 {
        self.meter.values_done()
    }

    /// What was sampled, if anything is.
    pub(crate) fn latencies(&self) -> Option<Latencies> {
        let sampling = self.sampling.as_ref()?;
        Some(sampling.latencies(&self.meter))
    }
}

/// Is it a task that a queue runs, and not only a place in the order?
pub(crate) fn does_work(op: &Op) -> bool {
    matches!(
        op,
        Op::Launch { .. }
            | Op::CopyIn(_)
            | Op::CopyOut(_)
            | Op::Copy
            | Op::Fill(_)
            | Op::Custom(_)
            | Op::Replay { .. }
    )
}

//! Observers: records about tasks for users that look at a device. They decide nothing.
//!
//! | module | what it records |
//! | --- | --- |
//! | `profiles`, `profile_sums` | the tasks of each open profile; the sums of their times |
//! | `noted_tasks` | the tasks of profiles and traces that have not completed; the spans of those that have |
//! | [`meter`] | how long sampled tasks waited and ran |
//! | `log_writer` | every message, as the submission log |
//!
//! `Observers` owns all of them except the log writer, which the `device` owns because the log ends with the device.
//!
//! # Protocol
//!
//! 1. *Counters* are additions at the place where the counted event happens.
//! 2. *At issue* the server calls `Observers::note_tasks`: one load and one branch while nothing observes tasks. If
//!    it returns `true`, the trace, the profiles and the sampling record the point of the task
//!    (`server/observing.rs`). A task is observed if the trace is on, a profile is open, or latencies are sampled.
//! 3. *At progress* the server takes the spans of completed tasks from the backend and passes them to
//!    `Observers::add_spans`. Spans come in any order; a task without a span by the time that its queue has passed it
//!    has none.
//! 4. The backend records spans only while `Observers::recording_change` says so.
//!
//! Everything is bounded (I12): the tasks that may not have completed by those in flight, the trace by its capacity, a
//! profile by its tasks and names, the sampling by its probes, the log by its bytes.
//!
//! # What checks it
//!
//! The unit tests of each module, `server/tests/metrics.rs`, and the modules `profiles`, `profiled_programs` and
//! `metrics` of the conformance suite.

#[cfg_attr(not(feature = "journal"), path = "no_log_writer.rs")]
pub mod log_writer;
pub mod meter;
mod noted_tasks;
mod profile_sums;
pub mod profiles;

use std::sync::Arc;

use millstream_protocol::{Logs, Op, Point, Settings, Stats, metrics::Histogram};

use meter::Meter;
use meter::Sampling;
use noted_tasks::NotedTasks;
use noted_tasks::Trace;
use profiles::Profiles;

/// The records about the tasks of a device.
pub struct Observers {
    /// The counters.
    pub counters: Stats,
    /// The number of tasks of each batch.
    pub batch_sizes: Histogram,
    /// The levels of the logs through `tracing`.
    pub logs: Logs,
    /// The open profiles.
    pub profiles: Profiles,
    /// The spans of the last tasks.
    pub trace: Trace,
    noted: NotedTasks,
    /// Whether the backend records spans for profiles.
    is_recording: bool,
    /// `None` if no latencies are sampled.
    sampling: Option<Box<Sampling>>,
    /// Shared with the other threads of the device.
    pub meter: Arc<Meter>,
    /// Whether the trace, a profile or the sampling observes tasks.
    notes_tasks: bool,
    /// The number of messages that the mailbox has room for.
    pub mailbox_capacity: u64,
    /// The number of spans of one queue that the backend must have room for while a profile is open.
    pub profile_spans: usize,
}

impl Observers {
    /// Creates the records of a device with this number of queues.
    pub fn new(settings: &Settings, queues: usize) -> Self {
        let mut observers = Self {
            counters: Stats::default(),
            batch_sizes: Histogram::new(),
            logs: settings.logs,
            profiles: Profiles::new(settings.profile_tasks),
            trace: Trace::new(settings.trace),
            noted: NotedTasks::new(queues),
            is_recording: false,
            sampling: Sampling::new(settings.sample_latencies),
            meter: Meter::new(),
            notes_tasks: false,
            mailbox_capacity: settings.mailbox_capacity.next_power_of_two() as u64,
            profile_spans: settings.profile_spans,
        };
        observers.update_notes_tasks();
        observers
    }

    /// Counts a batch of this number of tasks.
    #[inline]
    pub fn count_batch(&mut self, tasks: u64) {
        self.counters.batches += 1;
        self.batch_sizes.record(tasks);
    }

    /// Counts a wait on the device: the task at `place` waits for another.
    #[inline]
    pub fn count_wait(&mut self, place: Point, waited_for: Point) {
        self.counters.waits_issued += 1;
        self.trace.note_wait(place, waited_for);
    }

    /// Returns `true` if the trace, a profile or the sampling observes tasks.
    #[inline]
    pub fn note_tasks(&self) -> bool {
        self.notes_tasks
    }

    /// Returns `true` if the trace or the profiles need the spans of tasks.
    #[inline]
    pub fn needs_spans(&self) -> bool {
        self.is_recording || self.trace.is_on()
    }

    /// Returns `true` if completed tasks have consequences: spans to take, or profiles that wait for them.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.needs_spans() || self.profiles.has_ending()
    }

    /// Returns whether the backend must record spans for profiles, if that has changed: while a profile may get more tasks,
    /// or a covered task may be about to run.
    pub fn recording_change(&mut self) -> Option<bool> {
        let was_recording = self.is_recording;
        self.is_recording =
            self.profiles.may_cover() || (was_recording && self.noted.are_covered());
        self.update_notes_tasks();
        (self.is_recording != was_recording).then_some(self.is_recording)
    }

    fn update_notes_tasks(&mut self) {
        self.notes_tasks = self.needs_spans() || self.sampling.is_some();
    }
}

/// Returns `true` if an operation is work that a queue runs, not only a place in the order.
pub fn does_work(op: &Op) -> bool {
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

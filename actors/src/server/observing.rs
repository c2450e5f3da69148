//! What the server tells the observers: profiles (which streams a profile covers, and when it is complete), the owners of
//! tasks, metrics and logs.

use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::metrics::{ClientMetrics, Collection, Metrics};
use millstream_protocol::{
    Backend, Binding, ClientId, ClientMemory, Error, LogLevel, Op, Point, Profile, QueueId, Reason,
    Scope, SliceId, Task, TraceSpan,
};
use millstream_state::observers::does_work;
use millstream_state::observers::meter::{Meter, ReadClock};
use millstream_state::observers::meter::{NOT_FOLLOWED, PASSING};
use millstream_state::observers::profiles::{Ended, Tokens};
use millstream_sync::reply::ReplySender;

use super::Server;
use super::admit::FlushReason;

impl<B: Backend> Server<B> {
    /// Starts a profile of the tasks that the streams of `scope` receive from here on.
    pub(super) fn start_profile(&mut self, number: u64, scope: Scope) {
        if let Some(token) = self.observers.profiles.to_evict() {
            self.uncover(token);
            self.observers.profiles.evict(token);
        }
        for stream in self.streams_of(&scope) {
            self.scheduler.cover(stream, number);
        }
        self.observers.profiles.start(number, scope);
        self.record_spans_if_needed();
    }

    /// Covers a new stream by the profiles of its client and of the device.
    pub(super) fn cover_new(&mut self, stream: u32, client: ClientId) {
        for token in self.observers.profiles.covering_new_stream(client) {
            self.scheduler.cover(stream, token);
        }
    }

    /// Ends a profile: it covers no task that is sent from here on. Its caller is answered once all covered tasks have
    /// completed.
    pub(super) fn end_profile(
        &mut self,
        number: u64,
        calls: Duration,
        reply: ReplySender<Result<Profile, Error>>,
    ) {
        let Some(scope) = self.observers.profiles.scope_to_end(number) else {
            return reply.send(Err(Error::NoProfile { number }));
        };
        let streams = self.streams_of(&scope);
        let scheduler = &mut self.scheduler;
        let holding = streams.iter();
        let holding = holding.filter_map(|stream| scheduler.end_cover(*stream, number));
        let ended = Ended {
            calls,
            reply,
            holding: holding.collect(),
        };
        self.observers.profiles.end(number, ended);
        self.flush_keys(&streams);
        self.progress();
    }

    /// Returns the tokens that cover task `sequence` of a stream. Cuts profiles that have no room for it.
    pub(super) fn tokens_of(&mut self, stream: u32, sequence: u64, tasks: u64) -> Tokens {
        let mut tokens: Tokens = self.scheduler.tokens_of(stream, sequence).collect();
        for index in (0..tokens.len()).rev() {
            if self.observers.profiles.is_full_for(tokens[index], tasks) {
                let token = tokens.remove(index);
                self.observers.profiles.cut(token);
                self.uncover(token);
            }
        }
        tokens
    }

    /// Removes the cover of this token from all streams.
    fn uncover(&mut self, token: u64) {
        let Some(scope) = self.observers.profiles.scope(token) else {
            return;
        };
        for stream in self.streams_of(&scope) {
            self.scheduler.uncover(stream, token);
        }
    }

    /// Adds the spans of completed tasks, and answers the profiles that are complete.
    pub(super) fn progress_profiles(&mut self, moved: bool) {
        let has_ending = self.observers.profiles.has_ending();
        if !moved && !has_ending {
            return;
        }
        let spans = self.device.backend.take_spans();
        self.observers.add_spans(spans);
        for (id, queue) in self.scheduler.numbered_queues() {
            self.observers.passed(id.index(), queue.over());
        }
        if has_ending {
            for token in self.observers.profiles.ending() {
                self.answer_if_complete(token);
            }
        }
        self.record_spans_if_needed();
    }

    /// Answers the caller of an ended profile, if its tasks have all completed.
    fn answer_if_complete(&mut self, token: u64) {
        let (objects, scheduler) = (&self.objects, &self.scheduler);
        let holds = |id, until| {
            let stream = objects.stream(id);
            stream.is_some_and(|key| scheduler.is_held(key, until - 1))
        };
        let passed = |point: Point| scheduler.is_over(point);
        let profiles = &mut self.observers.profiles;
        if profiles.is_complete(token, holds, passed) {
            self.uncover(token);
            let clock = self.device.backend.clock();
            self.observers.profiles.answer(token, clock);
        }
    }

    /// Makes the backend record spans while profiles need them.
    fn record_spans_if_needed(&mut self) {
        if let Some(is_recording) = self.observers.recording_change() {
            let spans = match is_recording {
                true => self.observers.profile_spans,
                false => 0,
            };
            let depth = self.device.backend.record_spans(spans);
            self.scheduler.limit_depth(depth);
        }
    }

    // The owners and names of tasks at their points, for traces and profiles.

    /// Records a task that will be at `point` for the observers. One load and one branch while nothing observes tasks.
    #[inline]
    pub(super) fn note_task(&mut self, stream: u32, task: &Task, point: Point, admitted_ns: u64) {
        if self.observers.note_tasks() {
            self.note_observed_task(stream, task, point, admitted_ns);
        }
    }

    #[cold]
    fn note_observed_task(&mut self, stream: u32, task: &Task, point: Point, admitted_ns: u64) {
        if self.observers.is_followed(&task.op, admitted_ns) {
            let tasks = self.objects.tasks_of(&task.op);
            let last = point.cursor + (tasks as u64).max(1) - 1;
            let timeline = &self.scheduler.queue(point.queue).timeline;
            self.observers.follow(timeline, last, admitted_ns);
        }
        if self.observers.needs_spans() {
            // A task that passes through is counted as issued already.
            let not_counted = u64::from(admitted_ns != PASSING);
            let sequence = self.scheduler.stream(stream).issued + not_counted;
            self.note_span_of((stream, sequence), task, point);
        }
    }

    /// Records a task for the trace and the profiles that cover it.
    #[inline(never)]
    fn note_span_of(&mut self, (stream, sequence): (u32, u64), task: &Task, point: Point) {
        if matches!(task.op, Op::SyncPart(_)) {
            // It has no span, and would take the place of a task that has.
            return;
        }
        let traced = self.observers.trace.is_on();
        let tasks = self.objects.tasks_of(&task.op);
        let tokens = match self.scheduler.is_covered(stream) && does_work(&task.op) {
            true => self.tokens_of(stream, sequence, tasks as u64),
            false => Tokens::new(),
        };
        if !traced && tokens.is_empty() {
            return;
        }
        let actor = self.scheduler.stream(stream);
        let owner = TraceSpan {
            client: actor.client.0,
            client_name: actor.client_name.clone(),
            stream: actor.number,
            ..TraceSpan::default()
        };
        let mut waits = self.observers.trace.waits_of(point);
        // The tasks of one answer or replay have consecutive cursors.
        for index in 0..tasks {
            let here = Point::new(point.queue, point.cursor + index as u64);
            let task = TraceSpan {
                name: self.objects.name_of_part(task, index),
                waits: std::mem::take(&mut waits),
                ..owner.clone()
            };
            self.observers.note(here, task, &tokens);
        }
    }

    /// Takes the spans of the trace.
    pub(super) fn take_trace(&mut self) -> Vec<TraceSpan> {
        self.progress_profiles(true);
        let live = self.scheduler.live_numbers();
        self.observers.trace.take(&live)
    }

    // The metrics of a device: `Metrics`.

    /// Sets the meter that the server shares with the other threads of its device.
    pub fn with_meter(mut self, meter: Arc<Meter>) -> Self {
        self.observers.meter = meter;
        self
    }

    /// Sets the clock that measures how long tasks take. Without one every queue may have `max_in_flight` tasks in flight,
    /// however long they take.
    pub fn with_clock(mut self, clock: ReadClock) -> Self {
        self.scheduler.set_clock(clock);
        self
    }

    /// Counts a failed task.
    #[cold]
    pub(super) fn count_failure(&mut self, reason: &Reason) {
        self.observers.counters.failures += 1;
        self.table.sink().faults.count(reason);
    }

    /// Returns all metrics; `mailbox_depth` is the number of messages in the mailbox. Visits each stream and client,
    /// each slot that waits to be recycled, and, once any task has failed, each slice.
    pub(super) fn metrics(&self, mailbox_depth: u64) -> Metrics {
        let faults = self.table.sink().faults.snapshot();
        let mut metrics = Metrics::default();
        metrics.epoch = self.device.gone.epoch();
        metrics.stats = self.stats();
        metrics.mailbox_depth = mailbox_depth;
        metrics.mailbox_capacity = self.observers.mailbox_capacity;
        metrics.batch_sizes = self.observers.batch_sizes.clone();
        metrics.clients = self.client_metrics();
        metrics.faults = faults;
        if faults.total() > 0 {
            metrics.slices_poisoned = self.slices_poisoned();
        }
        metrics.collection = self.collection();
        metrics.latencies = self.observers.latencies();
        metrics
    }

    fn client_metrics(&self) -> Vec<ClientMetrics> {
        let of = |(name, memory, tasks): (&Arc<str>, ClientMemory, u64)| {
            let mut metrics = ClientMetrics::new(name.clone(), memory);
            metrics.tasks = tasks;
            metrics
        };
        let mut clients: Vec<_> = self.memory.accounts.all().map(of).collect();
        for (_, stream) in self.scheduler.streams() {
            // Streams of a removed client are not counted for any client.
            let place = clients.binary_search_by_key(&stream.client, ClientMetrics::client);
            if let Some(client) = place.ok().map(|place| &mut clients[place]) {
                client.streams += 1;
                client.tasks += stream.issued();
                client.tasks_held += stream.holds() as u64;
            }
        }
        clients
    }

    fn slices_poisoned(&self) -> u64 {
        let settled = |id: SliceId| {
            let slot = self.table.slot(id.index());
            slot.is_some_and(|slot| !slot.payload().poison.is_clean())
        };
        self.hazards.poisoned(settled) as u64
    }

    fn collection(&self) -> Collection {
        let retiring = || self.drops.retiring.iter();
        let since = retiring().map(|retiring| retiring.since_ns);
        let oldest = since.filter(|since_ns| *since_ns != NOT_FOLLOWED).min();
        let mut collection = Collection::default();
        collection.drops_ahead = self.drops.pending() as u64;
        collection.slices_waiting = (retiring().count() + self.drops.held_slices) as u64;
        let values_done = self.observers.meter.values_done();
        collection.values_waiting = self.drops.values.saturating_sub(values_done);
        collection.slice_waits_ns_max =
            oldest.map(|since| self.observers.meter.now_ns().saturating_sub(since));
        collection
    }

    // Log messages, through `tracing`. They are formatted only if they are wanted: a silent log costs one comparison.

    /// Level basic: a stream is flushed, and why.
    #[inline]
    pub(super) fn log_flush(&self, stream: u32, reason: FlushReason) {
        if self.observers.logs.streams >= LogLevel::Basic {
            let actor = self.scheduler.stream(stream);
            tracing::debug!(target: "millstream::streams", stream = actor.number, queue = actor.queue.0, tasks = actor.holds(), why = ?reason, "flush");
        }
    }

    /// Level basic: a queue waits for a point.
    #[inline]
    pub(super) fn log_wait(&self, queue: QueueId, point: Point) {
        if self.observers.logs.streams >= LogLevel::Basic {
            tracing::debug!(target: "millstream::streams", queue = queue.0, on = point.queue.0, cursor = point.cursor, "wait");
        }
    }

    /// Level full: a binding conflicts with a held task.
    #[inline]
    pub(super) fn log_conflict(&self, stream: u32, other: u32, binding: &Binding) {
        if self.observers.logs.streams >= LogLevel::Full {
            let (stream, other) = (
                self.scheduler.stream(stream).number,
                self.scheduler.stream(other).number,
            );
            tracing::trace!(target: "millstream::streams", stream, other, slice = binding.slice.index(), start = binding.offset, bytes = binding.len, access = %binding.access, "shared binding: the other stream holds a conflicting task");
        }
    }

    /// Always: a client has crossed its soft limit.
    #[cold]
    pub(super) fn log_crossing(&self, client: ClientId) {
        let ClientMemory {
            in_use, soft_limit, ..
        } = self.memory.accounts.of(client);
        tracing::warn!(target: "millstream::memory", client = client.0, in_use, soft_limit, "the client is above its soft limit");
    }

    /// Level basic: memory is reserved or freed, or a reservation fails.
    #[inline]
    pub(super) fn log_memory(&self, what: &'static str, bytes: u64) {
        if self.observers.logs.memory >= LogLevel::Basic {
            tracing::debug!(target: "millstream::memory", bytes, what);
        }
    }
}

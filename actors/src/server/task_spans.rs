//! The owners and names of tasks at their points, for traces and profiles.

use millstream_protocol::{Backend, Op, Point, Task, TraceSpan};

use super::Server;
use millstream_state::observers::does_work;
use millstream_state::observers::profiles::Tokens;
use millstream_state::observers::sampling::PASSING;

impl<B: Backend> Server<B> {
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
}

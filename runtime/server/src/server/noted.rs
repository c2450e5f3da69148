//! Whose task is where: what the timeline and profiles need to know of a task beside its times.

use std::collections::HashSet;
use std::sync::Arc;

use millstream_protocol::backend::Backend;
use millstream_protocol::id::Point;
use millstream_protocol::message::{Op, Task};
use millstream_protocol::recording::RecordedOp;
use millstream_protocol::report::TraceSpan;

use super::Server;
use crate::observers::does_work;
use crate::observers::profiles::Tokens;
use crate::observers::timeline::Owner;

impl<B: Backend> Server<B> {
    /// Remembers whose task, admitted then, is to be at `point`. While nobody wants to know, this is one load and one branch.
    #[inline]
    pub(super) fn note_task(&mut self, stream: u32, task: &Task, point: Point, admitted_ns: u64) {
        if self.observers.note_tasks() {
            self.note_wanted_task(stream, task, point, admitted_ns);
        }
    }

    #[cold]
    fn note_wanted_task(&mut self, stream: u32, task: &Task, point: Point, admitted_ns: u64) {
        if self.observers.is_followed(&task.op, admitted_ns) {
            let (_, tasks) = self.tasks_of(task);
            let last = point.cursor + (tasks as u64).max(1) - 1;
            let timeline = self.scheduler.timeline(point.queue);
            self.observers.follow(timeline, last, admitted_ns);
        }
        if self.observers.note_spans() {
            self.note_span_of(stream, task, point);
        }
    }

    /// Somebody wants to know when the task at `point` runs.
    #[inline(never)]
    fn note_span_of(&mut self, stream: u32, task: &Task, point: Point) {
        let traced = self.observers.timeline().is_on();
        let (replayed, tasks) = self.tasks_of(task);
        let covered = !self.scheduler.stream(stream).covered.is_empty();
        let tokens = match covered && does_work(&task.op) {
            true => self.tokens_of_next(stream, tasks as u64),
            false => Tokens::new(),
        };
        if !traced && tokens.is_empty() {
            return;
        }
        let actor = self.scheduler.stream(stream);
        let owner = Owner {
            client: actor.client,
            client_name: actor.client_name.clone(),
            stream: actor.number,
        };
        let own_name = self.name_of(task);
        // Those of one answer or replay have cursors that follow each other.
        for index in 0..tasks {
            let name = match replayed {
                Some(key) => self.name_of_recorded(key, index),
                None => own_name.clone(),
            };
            let here = Point::new(point.queue, point.cursor + index as u64);
            if !tokens.is_empty() {
                self.note_profiled(here, &name, &tokens);
            }
            if traced {
                self.observers.timeline().note(here, owner.clone(), name);
            }
        }
    }

    /// How many tasks, with cursors that follow each other, a task is: more than one where it is a replay, whose recording is told, or
    /// an answer.
    pub(super) fn tasks_of(&self, task: &Task) -> (Option<u32>, usize) {
        let recording = match &task.op {
            Op::Replay(recording) => self.links.recording(*recording),
            _ => None,
        };
        let replayed = recording.filter(|key| self.recordings.contains(*key as usize));
        let tasks = match (&task.op, replayed) {
            (_, Some(key)) => self.recordings[key as usize].tasks.len(),
            (Op::CopyOut(copy), _) => copy.landings.len(),
            _ => 1,
        };
        (replayed, tasks)
    }

    fn name_of_recorded(&self, key: u32, index: usize) -> Arc<str> {
        let stored = &self.recordings[key as usize];
        match (&stored.kernels[index], &stored.tasks[index].op) {
            (Some((name, _)), _) => name.clone(),
            (None, RecordedOp::Copy) => self.names.copy.clone(),
            (None, RecordedOp::Fill(_)) => self.names.fill.clone(),
            (None, _) => self.names.replay.clone(),
        }
    }

    /// The backend's spans with the names and streams that are remembered.
    pub(super) fn take_trace(&mut self) -> Vec<TraceSpan> {
        let taken = match self.observers.profiles().records() {
            // They go by way of the profiles, which want them, too.
            true => {
                self.progress_profiles(true);
                Vec::new()
            }
            false => self.backend.take_spans(),
        };
        let streams = self.scheduler.streams().map(|(_, stream)| stream);
        let live = streams.filter(|stream| !stream.dropped);
        let live: HashSet<u64> = live.map(|stream| stream.number).collect();
        let scheduler = &self.scheduler;
        let passed = |point: Point| scheduler.has_passed(point);
        self.observers.timeline().take(taken, &live, passed)
    }
}

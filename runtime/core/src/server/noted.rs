//! Whose task is where: what the timeline and profiles need to know of a task beside its times.

use std::collections::HashMap;
use std::sync::Arc;

use crate::backend::Backend;
use crate::id::Point;
use crate::message::{Op, Task};
use crate::recording::RecordedOp;
use crate::report::TraceSpan;

use super::Server;
use super::profiles::Tokens;

impl<B: Backend> Server<B> {
    /// Remembers whose task is to be at `point`. While nobody wants to know, this is one load and one branch.
    #[inline]
    pub(super) fn note_task(&mut self, stream: u32, task: &Task, point: Point) {
        if self.notes_tasks {
            self.note_wanted_task(stream, task, point);
        }
    }

    #[cold]
    fn note_wanted_task(&mut self, stream: u32, task: &Task, point: Point) {
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
        let runs = matches!(
            task.op,
            Op::Launch { .. }
                | Op::CopyIn(_)
                | Op::CopyOut(_)
                | Op::Copy
                | Op::Fill(_)
                | Op::Custom(_)
                | Op::Replay(_)
        );
        let tokens = match runs && !self.streams[stream as usize].covered.is_empty() {
            true => self.tokens_of_next(stream, tasks as u64),
            false => Tokens::new(),
        };
        let traced = self.options.trace_capacity > 0;
        if !traced && tokens.is_empty() {
            return;
        }
        let number = self.streams[stream as usize].number;
        let own_name = self.name_of(task);
        // Those of one answer or replay have cursors that follow each other.
        for index in 0..tasks {
            let name = match replayed {
                Some(key) => self.name_of_recorded(key, index),
                None => own_name.clone(),
            };
            let here = Point::new(point.queue, point.cursor + index as u64);
            if !tokens.is_empty() {
                self.profiles.note(here, &name, &tokens);
            }
            if traced {
                self.remember(here, number, name);
            }
        }
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

    fn remember(&mut self, point: Point, stream: u64, name: Arc<str>) {
        if self.trace.len() == self.options.trace_capacity {
            self.trace.pop_front();
        }
        self.trace.push_back((point, stream, name));
    }

    /// The backend's spans with the names and streams that the server remembers.
    pub(super) fn take_trace(&mut self) -> Vec<TraceSpan> {
        let mut known: HashMap<Point, (u64, Arc<str>)> = self
            .trace
            .drain(..)
            .map(|(point, stream, name)| (point, (stream, name)))
            .collect();
        let mut spans: Vec<TraceSpan> = Vec::new();
        let mut taken = match self.profiles.records {
            // They go by way of the profiles, which want them, too.
            true => {
                self.progress_profiles(true);
                Vec::new()
            }
            false => self.backend.take_spans(),
        };
        taken.append(&mut self.profiles.for_timeline);
        for span in taken {
            if let Some((stream, name)) = known.remove(&span.point) {
                let queue = u32::from(span.point.queue.0);
                spans.push(TraceSpan {
                    name,
                    stream,
                    queue,
                    start_ns: span.start_ns,
                    end_ns: span.end_ns,
                });
            }
        }
        // What has not run yet is told the next time.
        self.trace.extend(
            known
                .into_iter()
                .map(|(point, (stream, name))| (point, stream, name)),
        );
        spans.sort_by_key(|span| (span.start_ns, span.queue));
        spans
    }
}

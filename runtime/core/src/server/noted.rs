//! Whose task is where: what the timeline and profiles need to know of a task beside its times.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::backend::{Backend, Span};
use crate::id::{ClientId, Point};
use crate::message::{Op, Task};
use crate::recording::RecordedOp;
use crate::report::{TraceSpan, TraceWait};

use super::Server;
use super::metered::does_work;
use super::profiles::Tokens;

/// A task that the timeline is to tell of, once the backend says when it ran.
pub(super) struct Noted {
    point: Point,
    client: ClientId,
    client_name: Arc<str>,
    stream: u64,
    name: Arc<str>,
}

impl<B: Backend> Server<B> {
    /// Remembers whose task, admitted then, is to be at `point`. While nobody wants to know, this is one load and one branch.
    #[inline]
    pub(super) fn note_task(&mut self, stream: u32, task: &Task, point: Point, admitted_ns: u64) {
        if self.notes_tasks {
            self.note_wanted_task(stream, task, point, admitted_ns);
        }
    }

    #[cold]
    fn note_wanted_task(&mut self, stream: u32, task: &Task, point: Point, admitted_ns: u64) {
        if self.is_followed(task, admitted_ns) {
            self.follow(task, point, admitted_ns);
        }
        let traced = self.options.trace_capacity > 0;
        if traced || self.profiles.records {
            self.note_span_of(stream, task, point, traced);
        }
    }

    /// Somebody wants to know when the task at `point` runs.
    #[inline(never)]
    fn note_span_of(&mut self, stream: u32, task: &Task, point: Point, traced: bool) {
        let (replayed, tasks) = self.tasks_of(task);
        let covered = !self.streams[stream as usize].covered.is_empty();
        let tokens = match covered && does_work(&task.op) {
            true => self.tokens_of_next(stream, tasks as u64),
            false => Tokens::new(),
        };
        if !traced && tokens.is_empty() {
            return;
        }
        let actor = &self.streams[stream as usize];
        let (number, client) = (actor.number, actor.client);
        let client_name = actor.client_name.clone();
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
                let stream = number;
                self.remember(Noted {
                    point: here,
                    client,
                    client_name: client_name.clone(),
                    stream,
                    name,
                });
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

    fn remember(&mut self, task: Noted) {
        push_bounded(&mut self.trace, task, self.options.trace_capacity);
    }

    /// Remembers that the task that is to be at `place` waits for another.
    #[inline]
    pub(super) fn note_wait(&mut self, place: Point, waited_for: Point) {
        let capacity = self.options.trace_capacity;
        if capacity > 0 {
            push_bounded(&mut self.traced_waits, (place, waited_for), capacity);
        }
    }

    /// The backend's spans with the names and streams that the server remembers.
    pub(super) fn take_trace(&mut self) -> Vec<TraceSpan> {
        let mut taken = match self.profiles.records {
            // They go by way of the profiles, which want them, too.
            true => {
                self.progress_profiles(true);
                Vec::new()
            }
            false => self.backend.take_spans(),
        };
        taken.extend(self.profiles.for_timeline.drain(..));
        let ran = taken.into_iter().map(|span| (span.point, span));
        let mut ran: HashMap<Point, Span> = ran.collect();
        let mut waits: HashMap<Point, Vec<TraceWait>> = HashMap::new();
        for (place, waited_for) in &self.traced_waits {
            waits.entry(*place).or_default().push(TraceWait {
                queue: u32::from(waited_for.queue.0),
                cursor: waited_for.cursor,
            });
        }
        let streams = self.streams.iter().map(|(_, stream)| stream);
        let live = streams.filter(|stream| !stream.dropped);
        let live: HashSet<u64> = live.map(|stream| stream.number).collect();
        let mut spans: Vec<TraceSpan> = Vec::new();
        // What has not run yet is told the next time, and stays in its order: the oldest gives way. The last of a place is the one that has it.
        let mut later: VecDeque<Noted> = VecDeque::new();
        for task in std::mem::take(&mut self.trace).into_iter().rev() {
            let queue = &self.queues[task.point.queue.index()];
            match ran.remove(&task.point) {
                Some(span) => spans.push(TraceSpan {
                    name: task.name,
                    client: task.client.0,
                    client_name: task.client_name,
                    stream: task.stream,
                    stream_ended: !live.contains(&task.stream),
                    queue: u32::from(task.point.queue.0),
                    cursor: task.point.cursor,
                    start_ns: span.start_ns,
                    end_ns: span.end_ns,
                    waits: waits.remove(&task.point).unwrap_or_default(),
                }),
                None if task.point.cursor > queue.completed => later.push_front(task),
                // It is over, and nobody took its times.
                None => {}
            }
        }
        self.trace = later;
        let queues = &self.queues;
        self.traced_waits.retain(|(place, _)| {
            waits.contains_key(place) && place.cursor > queues[place.queue.index()].completed
        });
        spans.sort_by_key(|span| (span.start_ns, span.queue));
        spans
    }
}

/// Puts a value into a ring: without room, the oldest gives way.
pub(super) fn push_bounded<T>(ring: &mut VecDeque<T>, value: T, capacity: usize) {
    if ring.len() == capacity {
        ring.pop_front();
    }
    ring.push_back(value);
}

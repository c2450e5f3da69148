//! Issuing: how the first task that a stream holds becomes calls of the backend.

use std::sync::Arc;

use crate::access::Access;
use crate::backend::{Backend, BoundCount, BoundSlice, HostData, Launch, Place, Refused};
use crate::error::Error;
use crate::failure::{Failure, FailureRef, Reason};
use crate::handle::Binding;
use crate::id::{Point, QueueId};
use crate::memory::ReserveError;
use crate::message::{HostSource, LaunchCount, Op, Task, Ticket};
use crate::slice::Memory;
use crate::stream::actor::{HeldTask, Parked};

use super::admit::{Patience, binding_at};
use super::{Effect, HostToken, SPARE_BLOCKS_MAX, Server};

/// What became of an attempt to issue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Issued {
    /// The first task went.
    Yes,
    /// The queue has enough in flight.
    Full,
    /// The first task waits for something.
    Parked,
    /// The stream holds nothing.
    Empty,
}

impl<B: Backend> Server<B> {
    /// Issues the first task that a stream holds.
    pub(super) fn issue_first(&mut self, stream: u32) -> Issued {
        let Some(actor) = self.streams.get(stream as usize) else {
            return Issued::Empty;
        };
        if actor.held.is_empty() {
            return Issued::Empty;
        }
        if !actor.can_go() {
            return Issued::Parked;
        }
        let queue = actor.queue;
        if self.is_full(queue) {
            return Issued::Full;
        }
        match self.streams[stream as usize]
            .held
            .front()
            .map(|held| &held.task.op)
        {
            Some(Op::Reserve { .. }) => return self.issue_reserve(stream),
            Some(Op::Host(_)) => return self.park_host(stream),
            _ => {}
        }
        let Some(mut held) = self.streams[stream as usize].held.pop_front() else {
            return Issued::Empty;
        };
        self.issue_waits(queue, &held);
        let state = &mut self.queues[queue.index()];
        state.issued += 1;
        let point = Point::new(queue, state.issued);
        self.counters.tasks += 1;
        self.note_trace(stream, &held.task, point);
        self.run(&mut held.task, point);
        self.finish(stream, held, point);
        Issued::Yes
    }

    /// Has the queue enough in flight? Looks at its progress before it says so.
    #[inline]
    fn is_full(&mut self, queue: QueueId) -> bool {
        let limit = self.options.max_in_flight as u64;
        let state = &mut self.queues[queue.index()];
        if state.in_flight() < limit {
            return false;
        }
        // What is issued must be on its way, or it would never complete.
        self.end_batch(queue);
        let state = &mut self.queues[queue.index()];
        state.look();
        state.full = state.in_flight() >= limit;
        state.full
    }

    /// Issues the waits that no clock implies.
    #[inline]
    fn issue_waits(&mut self, queue: QueueId, held: &HeldTask) {
        for point in &held.after {
            let other = &self.queues[point.queue.index()];
            if point.queue == queue
                || other.completed >= point.cursor
                || self.queues[queue.index()].clock.covers(*point)
            {
                self.counters.waits_implied += u64::from(point.queue != queue);
                continue;
            }
            // The point must have been recorded before anything waits for it.
            if other.flushed < point.cursor {
                self.end_batch(point.queue);
            }
            let clock = self.queues[point.queue.index()].clock.at(point.cursor);
            self.log_wait(queue, *point);
            if self.backend.queue_wait(queue, *point).is_ok() {
                let state = &mut self.queues[queue.index()];
                state.clock.wait(state.issued + 1, *point, clock);
                self.counters.waits_issued += 1;
            }
        }
    }

    /// Hands the task to the backend, or poisons what it would have written.
    fn run(&mut self, task: &mut Task, point: Point) {
        if let Op::Replay(recording) = task.op {
            return self.replay(recording, task, point);
        }
        let outcome = match self.resolve(task) {
            Err(cause) => Err(Failure::input(&self.name_of(task), cause)),
            Ok(()) => self.call(task, point),
        };
        match outcome {
            Ok(()) => self.heal(task),
            Err(failure) => {
                self.backend.mark(point.queue, point.cursor);
                self.fail(task, failure);
            }
        }
        self.answer(task, point);
    }

    /// Resolves the task's bindings, or finds the failure of what it needs.
    fn resolve(&mut self, task: &Task) -> Result<(), FailureRef> {
        self.bound.clear();
        for index in 0.. {
            let Some(binding) = binding_at(task, index) else {
                break;
            };
            let bound = self.bind(&binding)?;
            self.bound.push(bound);
        }
        Ok(())
    }

    /// A binding as the backend sees it.
    #[inline]
    pub(super) fn bind(&self, binding: &Binding) -> Result<BoundSlice, FailureRef> {
        let Some(slice) = self.links.slice(binding.slice) else {
            debug_assert!(false, "a task names a slice that is gone (I4)");
            return Err(Failure::not_run(&self.names.other, Reason::Lost));
        };
        let slice = &self.slices[slice as usize];
        if binding.access.reads()
            && !slice.faults.is_clean()
            && let Some(failure) = slice
                .faults
                .find(&(binding.offset..binding.offset + binding.len))
        {
            return Err(failure.clone());
        }
        let (page, base) = match &slice.memory {
            Memory::Reserved(reservation) => (Some(reservation.page), reservation.offset),
            Memory::None => (None, 0),
            Memory::Failed(failure) => return Err(failure.clone()),
            Memory::Pending => {
                debug_assert!(false, "a task goes before its slice has memory");
                return Err(Failure::not_run(&self.names.reserve, Reason::Lost));
            }
        };
        Ok(BoundSlice {
            page,
            offset: base + binding.offset,
            len: if page.is_some() { binding.len } else { 0 },
            access: binding.access,
            slice: binding.slice,
            slice_offset: binding.offset,
        })
    }

    /// The backend's call for a task whose bindings are resolved.
    fn call(&mut self, task: &mut Task, point: Point) -> Result<(), FailureRef> {
        let (queue, cursor) = (point.queue, point.cursor);
        let refused = match &mut task.op {
            Op::Launch { kernel, count } => {
                let Some(prepared) = self
                    .links
                    .kernel(*kernel)
                    .map(|key| &self.kernels[key as usize])
                else {
                    return Err(Failure::not_run(&self.names.other, Reason::Lost));
                };
                let declared = prepared
                    .kernel
                    .signature()
                    .bindings()
                    .len()
                    .min(self.bound.len());
                let (bindings, rest) = self.bound.split_at(declared);
                let count = match (count, rest.first()) {
                    (LaunchCount::Static(count), _) => BoundCount::Static(*count),
                    (LaunchCount::Dynamic, Some(count)) => BoundCount::Dynamic(*count),
                    (LaunchCount::Dynamic, None) => BoundCount::Static([0; 3]),
                };
                let extra = task.extra.as_deref();
                let launch = Launch {
                    name: prepared.kernel.name(),
                    kernel: &prepared.code,
                    count,
                    bindings,
                    scalars: match extra {
                        Some(extra) if !extra.words.is_empty() => &extra.words,
                        _ => &task.words,
                    },
                    metadata: extra.map_or(&[], |extra| &extra.metadata),
                    tensor_maps: extra.map_or(&[], |extra| &extra.tensor_maps),
                };
                self.counters.launches += 1;
                let outcome = self.backend.launch(queue, cursor, &launch);
                outcome.map_err(|refused| (prepared.kernel.name().clone(), refused))
            }
            Op::CopyIn(_) => self.call_copy_in(task, point),
            Op::CopyOut(_) => self.call_copy_out(task, point),
            Op::Copy => {
                let place = Place {
                    queue,
                    cursor,
                    name: &self.names.copy,
                };
                match self.bound.as_slice() {
                    [source, target, ..] => self.backend.copy(place, source, target),
                    _ => {
                        self.backend.mark(queue, cursor);
                        Ok(())
                    }
                }
                .map_err(|refused| (self.names.copy.clone(), refused))
            }
            Op::Fill(pattern) => {
                let place = Place {
                    queue,
                    cursor,
                    name: &self.names.fill,
                };
                match self.bound.as_slice() {
                    [target, ..] => self.backend.fill(place, target, *pattern),
                    _ => {
                        self.backend.mark(queue, cursor);
                        Ok(())
                    }
                }
                .map_err(|refused| (self.names.fill.clone(), refused))
            }
            Op::Custom(_) => match std::mem::replace(&mut task.op, Op::Taken) {
                Op::Custom(custom) => {
                    let place = Place {
                        queue,
                        cursor,
                        name: &custom.name,
                    };
                    let outcome = self.backend.custom(place, &self.bound, custom.work);
                    outcome.map_err(|refused| (custom.name.clone(), refused))
                }
                _ => Ok(()),
            },
            _ => {
                self.backend.mark(queue, cursor);
                Ok(())
            }
        };
        refused.map_err(|(name, refused)| refusal(&name, refused))
    }

    /// One copy for each binding. All but the last are part of the same point: a backend sees one
    /// cursor for each of them, so they take cursors of their own.
    fn call_copy_in(&mut self, task: &mut Task, point: Point) -> Result<(), (Arc<str>, Refused)> {
        let name = self.names.copy_in.clone();
        let place = Place {
            queue: point.queue,
            cursor: point.cursor,
            name: &name,
        };
        let layouts = task
            .extra
            .as_mut()
            .map(|extra| std::mem::take(&mut extra.layouts))
            .unwrap_or_default();
        let layout = layouts.first().and_then(Option::as_ref);
        let Some(target) = self.bound.first() else {
            self.backend.mark(point.queue, point.cursor);
            return Ok(());
        };
        let source = match std::mem::replace(&mut task.op, Op::Taken) {
            Op::CopyIn(HostSource::Words(len)) => {
                let mut words = [0; crate::launch::INLINE_WORDS];
                words[..task.words.len()].copy_from_slice(&task.words);
                HostData::Words {
                    words,
                    len: len as usize,
                }
            }
            Op::CopyIn(HostSource::Owned(owned)) => HostData::Owned(owned),
            _ => {
                self.backend.mark(point.queue, point.cursor);
                return Ok(());
            }
        };
        self.backend
            .copy_in(place, target, layout, source)
            .map_err(|refused| (name.clone(), refused))
    }

    /// The copies of one answer. Each takes a cursor; the answer waits for the last.
    fn call_copy_out(&mut self, task: &mut Task, point: Point) -> Result<(), (Arc<str>, Refused)> {
        let name = self.names.copy_out.clone();
        let Op::CopyOut(copy) = &task.op else {
            return Ok(());
        };
        let layouts = task
            .extra
            .as_deref()
            .map_or(&[][..], |extra| &extra.layouts);
        let mut cursor = point.cursor;
        for (index, (source, landing)) in self.bound.iter().zip(&copy.landings).enumerate() {
            if index > 0 {
                let state = &mut self.queues[point.queue.index()];
                state.issued += 1;
                cursor = state.issued;
            }
            let place = Place {
                queue: point.queue,
                cursor,
                name: &name,
            };
            let layout = layouts.get(index).and_then(Option::as_ref);
            if let Err(refused) = self
                .backend
                .copy_out(place, source, layout, landing.clone())
            {
                if index > 0 {
                    self.backend.mark(point.queue, cursor);
                    landing.fail(refusal(&name, refused));
                    continue;
                }
                return Err((name, refused));
            }
        }
        if copy.landings.is_empty() {
            self.backend.mark(point.queue, cursor);
        }
        Ok(())
    }

    /// What a task writes whole is data again.
    #[inline]
    fn heal(&mut self, task: &Task) {
        for binding in task
            .all_bindings()
            .filter(|binding| binding.access == Access::Write)
        {
            if let Some(slice) = self.links.slice(binding.slice) {
                let faults = &mut self.slices[slice as usize].faults;
                if !faults.is_clean() {
                    faults.clear(&(binding.offset..binding.offset + binding.len));
                }
            }
        }
    }

    /// Poisons what the task would have written and answers who waits for it (I7).
    pub(super) fn fail(&mut self, task: &mut Task, failure: FailureRef) {
        self.counters.failures += 1;
        for index in 0.. {
            let Some(binding) = binding_at(task, index) else {
                break;
            };
            if binding.access.writes()
                && let Some(slice) = self.links.slice(binding.slice)
            {
                let range = binding.offset..binding.offset + binding.len;
                self.slices[slice as usize]
                    .faults
                    .mark(range, failure.clone());
            }
        }
        if matches!(task.op, Op::CopyOut(_))
            && let Op::CopyOut(copy) = std::mem::replace(&mut task.op, Op::Taken)
        {
            // The asker is told of the data's failure, not that a copy of it did not run.
            let told = failure.cause.clone().unwrap_or(failure);
            copy.reply.send(Err(Error::Failed(told)));
        }
    }

    /// Tells who waits for this task where it is.
    #[inline]
    fn answer(&mut self, task: &mut Task, point: Point) {
        let reply = match std::mem::replace(&mut task.op, Op::Taken) {
            Op::CopyOut(copy) => copy.reply,
            Op::Answer(reply) => reply,
            Op::DropAfter(value) => {
                let mut after = crate::hazard::points::Points::default();
                after.insert(point);
                return self.effects.push_back(Effect::Collect { value, after });
            }
            op => {
                task.op = op;
                return;
            }
        };
        let last = self.queues[point.queue.index()].issued;
        let mut ticket = Ticket::default();
        ticket.points.push(Point::new(point.queue, last));
        reply.send(Ok(ticket));
    }

    /// The task is at `point`: its entries say so, its stream goes on, who waited for it may go.
    pub(super) fn finish(&mut self, stream: u32, mut held: Box<HeldTask>, point: Point) {
        // A task may have taken more cursors than its first; cursor 0 is a task done in software.
        let cursor = if point.cursor == 0 {
            0
        } else {
            self.queues[point.queue.index()].issued
        };
        let last = Point::new(point.queue, cursor);
        let actor = &mut self.streams[stream as usize];
        actor.issued += 1;
        actor.last = actor.last.max(cursor);
        let sequence = actor.issued;
        if held.paid {
            actor.credit.release(1);
        }
        for index in 0.. {
            let Some(binding) = binding_at(&held.task, index) else {
                break;
            };
            if let Some(slice) = self.links.slice(binding.slice) {
                self.slices[slice as usize]
                    .log
                    .issue(stream, sequence, last);
                self.release_slice(slice);
            }
        }
        match held.task.op {
            Op::Launch { kernel, .. } => {
                if let Some(key) = self.links.kernel(kernel) {
                    self.release_kernel(key);
                }
            }
            Op::Replay(recording) => {
                if let Some(key) = self.links.recording(recording) {
                    self.release_recording(key);
                }
            }
            _ => {}
        }
        held.task.op = Op::Taken;
        held.task.extra = None;
        held.after.clear();
        held.unissued = 0;
        if self.spare.len() < SPARE_BLOCKS_MAX {
            self.spare.push(held);
        }
        if !self.streams[stream as usize].waiters.is_empty() {
            self.wake_waiters(stream, sequence, last);
        }
        if self.streams[stream as usize].dropped {
            self.remove_stream_if_done(stream);
        }
    }

    /// Tasks that waited for this one to be issued come after its point now.
    fn wake_waiters(&mut self, stream: u32, sequence: u64, point: Point) {
        let mut waiters = std::mem::take(&mut self.streams[stream as usize].waiters);
        waiters.retain(|waiter| {
            if waiter.sequence > sequence {
                return true;
            }
            if let Some(actor) = self.streams.get_mut(waiter.stream as usize)
                && let Some(held) = actor.held_mut(waiter.task)
            {
                held.unissued -= 1;
                held.come_after(point);
                self.join_turn(waiter.stream);
            }
            false
        });
        self.streams[stream as usize].waiters = waiters;
    }

    /// Tries a reservation that had to wait.
    fn issue_reserve(&mut self, stream: u32) -> Issued {
        let Some(held) = self.streams[stream as usize].held.front() else {
            return Issued::Empty;
        };
        let (Op::Reserve { mode, .. }, Some(binding)) =
            (&held.task.op, held.task.bindings.first().copied())
        else {
            return Issued::Empty;
        };
        let mode = *mode;
        let Some(slice) = self.links.slice(binding.slice) else {
            return Issued::Empty;
        };
        match self.reserve(slice, stream, mode, Patience::Parked) {
            Ok(()) => {}
            Err(ReserveError::OutOfMemory { .. }) => {
                self.streams[stream as usize].parked = Parked::Memory;
                if !self.hungry.contains(&stream) {
                    if self.hungry.is_empty() {
                        self.hungry_budget = self.clean_bytes();
                    }
                    self.hungry.push_back(stream);
                    self.counters.tasks_parked += 1;
                }
                return Issued::Parked;
            }
            Err(error) => {
                let failure =
                    Failure::not_run(&self.names.reserve, Reason::Refused(error.to_string()));
                self.slices[slice as usize].memory = Memory::Failed(failure);
                self.counters.failures += 1;
            }
        }
        self.finish_in_software(stream);
        Issued::Yes
    }

    /// The first task of a stream is done without a queue: who waits for it waits for nothing.
    pub(super) fn finish_in_software(&mut self, stream: u32) {
        let queue = self.streams[stream as usize].queue;
        self.streams[stream as usize].parked = Parked::No;
        if let Some(held) = self.streams[stream as usize].held.pop_front() {
            self.finish(stream, held, Point::new(queue, 0));
        }
        if self.streams.contains(stream as usize) {
            self.join_turn(stream);
        }
    }

    /// A host function waits in software until everything before it has completed, so that it never
    /// stands in the way of other streams of its queue.
    fn park_host(&mut self, stream: u32) -> Issued {
        self.streams[stream as usize].parked = Parked::HostTurn;
        self.end_batch(self.streams[stream as usize].queue);
        self.host_turns.push(stream);
        self.start_host_turns();
        Issued::Parked
    }

    /// Starts the host functions whose predecessors have completed.
    pub(super) fn start_host_turns(&mut self) {
        let mut index = 0;
        while index < self.host_turns.len() {
            let stream = self.host_turns[index];
            if self.host_can_start(stream) {
                self.host_turns.swap_remove(index);
                self.start_host(stream);
            } else {
                index += 1;
            }
        }
    }

    fn host_can_start(&mut self, stream: u32) -> bool {
        let actor = &self.streams[stream as usize];
        let Some(held) = actor.held.front() else {
            return true;
        };
        let last = Point::new(actor.queue, actor.last);
        let passed = |queues: &mut Vec<crate::stream::queue::QueueState>, point: Point| {
            let state = &mut queues[point.queue.index()];
            state.look();
            state.completed >= point.cursor
        };
        let queues = &mut self.queues;
        std::iter::once(last)
            .chain(held.after.iter().copied())
            .all(|point| passed(queues, point))
    }

    fn start_host(&mut self, stream: u32) {
        let actor = &mut self.streams[stream as usize];
        let token = HostToken {
            stream,
            sequence: actor.issued + 1,
        };
        actor.parked = Parked::HostRuns;
        let Some(mut held) = actor.held.pop_front() else {
            return;
        };
        let outcome = self
            .resolve(&held.task)
            .and_then(|()| crate::settle::inputs(&self.table, &self.bound));
        let op = std::mem::replace(&mut held.task.op, Op::Taken);
        let failed = outcome.is_err();
        match (op, outcome) {
            (Op::Host(work), Ok(())) => {
                let wanted = work.resources;
                let resources = wanted
                    .then(|| self.backend.resources(&self.bound))
                    .and_then(Result::ok);
                let resources =
                    resources.map(|resources| resources as Box<dyn std::any::Any + Send>);
                self.effects.push_back(Effect::Host {
                    work: *work,
                    resources,
                    token,
                });
            }
            (Op::Host(work), Err(cause)) => {
                let failure = Failure::input(&work.name, cause);
                self.fail(&mut held.task, failure);
            }
            _ => {}
        }
        self.streams[stream as usize].held.push_front(held);
        if failed {
            self.finish_in_software(stream);
        }
    }

    /// A host function ended, or panicked with this message.
    pub fn host_finished(&mut self, token: HostToken, outcome: Result<(), String>) {
        let Some(actor) = self.streams.get_mut(token.stream as usize) else {
            return;
        };
        if actor.parked != Parked::HostRuns || actor.issued + 1 != token.sequence {
            return;
        }
        let Some(mut held) = actor.held.pop_front() else {
            return;
        };
        match outcome {
            Ok(()) => self.heal(&held.task),
            Err(message) => {
                let failure = Failure::panicked(&Arc::from("host function"), message);
                self.fail(&mut held.task, failure);
            }
        }
        self.streams[token.stream as usize].held.push_front(held);
        self.finish_in_software(token.stream);
    }

    /// The task's name, for failures.
    pub(super) fn name_of(&self, task: &Task) -> Arc<str> {
        match &task.op {
            Op::Launch { kernel, .. } => match self.links.kernel(*kernel) {
                Some(key) => self.kernels[key as usize].kernel.name().clone(),
                None => self.names.other.clone(),
            },
            Op::Custom(custom) => custom.name.clone(),
            Op::Host(work) => work.name.clone(),
            Op::CopyIn(_) => self.names.copy_in.clone(),
            Op::CopyOut(_) => self.names.copy_out.clone(),
            Op::Copy => self.names.copy.clone(),
            Op::Fill(_) => self.names.fill.clone(),
            Op::Reserve { .. } => self.names.reserve.clone(),
            Op::Replay(_) => self.names.replay.clone(),
            _ => self.names.other.clone(),
        }
    }

    /// Remembers whose task is where, for the timeline.
    #[inline]
    fn note_trace(&mut self, stream: u32, task: &Task, point: Point) {
        if self.options.trace_capacity == 0 {
            return;
        }
        if self.trace.len() == self.options.trace_capacity {
            self.trace.pop_front();
        }
        let name = self.name_of(task);
        self.trace
            .push_back((point, self.streams[stream as usize].number, name));
    }
}

/// A refusal as a failure.
pub(super) fn refusal(name: &Arc<str>, refused: Refused) -> FailureRef {
    match refused {
        Refused::Task(why) => Failure::not_run(name, Reason::Refused(why)),
        Refused::Lost(_) => Failure::not_run(name, Reason::Lost),
    }
}

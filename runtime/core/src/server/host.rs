//! User code in a stream's order: it waits in software until everything before it has completed, and
//! runs on a thread for such. So it never stands in the way of other streams of its queue.

use std::any::Any;

use crate::backend::Backend;
use crate::failure::Failure;
use crate::id::Point;
use crate::message::Op;
use crate::stream::actor::Parked;

use super::issue::Issued;
use super::{Effect, HostToken, Server};

impl<B: Backend> Server<B> {
    /// A host function waits in software until everything before it has completed, so that it never
    /// stands in the way of other streams of its queue.
    pub(super) fn park_host(&mut self, stream: u32) -> Issued {
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
                self.host_names.insert(stream, work.name.clone());
                let wanted = work.resources;
                let resources = wanted
                    .then(|| self.backend.resources(&self.bound))
                    .and_then(Result::ok);
                let resources = resources.map(|resources| resources as Box<dyn Any + Send>);
                self.effects.push_back(Effect::Host {
                    work: *work,
                    resources,
                    token,
                });
            }
            (Op::Host(work), Err(cause)) => {
                let failure = Failure::input(&work.name, cause);
                self.fail(&mut held.task, failure);
                // Dropping user code is running user code: not on this thread.
                self.effects.push_back(Effect::Collect {
                    value: Box::new(work),
                    after: Default::default(),
                });
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
            Ok(()) => {
                self.host_names.remove(&token.stream);
                // What was bound for writing is data again, whenever its failure became known.
                if self.resolve(&held.task).is_ok() {
                    crate::settle::outputs(&self.table, &self.bound, &Ok(()));
                }
                self.heal(&held.task);
            }
            Err(message) => {
                let name = self
                    .host_names
                    .remove(&token.stream)
                    .unwrap_or_else(|| self.names.other.clone());
                let failure = Failure::panicked(&name, message);
                self.fail(&mut held.task, failure);
            }
        }
        self.streams[token.stream as usize].held.push_front(held);
        self.finish_in_software(token.stream);
    }
}

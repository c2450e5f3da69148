//! User code in a stream's order: it waits in software until everything before it has completed, and
//! runs on a thread for such. So it never stands in the way of other streams of its queue.

use std::any::Any;

use crate::backend::Backend;
use crate::failure::{Failure, FailureRef};
use crate::hazard::points::Points;
use crate::id::Point;
use crate::message::{HostWork, Op, Task};
use crate::releases::Release;
use crate::stream::actor::Parked;

use super::issue::Issued;
use super::loss::tell;
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
        let Op::Host(mut work) = std::mem::replace(&mut held.task.op, Op::Taken) else {
            debug_assert!(false, "only a host function has a turn");
            return self.streams[stream as usize].held.push_front(held);
        };
        let outcome = match self.withdrawn_host(&held.task, &work) {
            Some(failure) => Err(failure),
            None => self.host_resources(&held.task, &work),
        };
        let failed = outcome.is_err();
        match outcome {
            Ok(resources) => {
                if let Some(terms) = held.task.terms() {
                    terms.begins_on_host();
                }
                self.host_names.insert(stream, work.name.clone());
                // What the closure owns goes when it returns, and may have the last handle of a slice.
                let (run, release) = (work.run, Release::begin(&self.table));
                work.run = Box::new(move |done, resources| {
                    run(done, resources);
                    drop(release);
                });
                self.effects.push_back(Effect::Host {
                    work: *work,
                    resources,
                    token,
                });
            }
            Err(failure) => {
                tell(&mut work, &failure, &self.loss.gone);
                self.fail(&mut held.task, failure);
                // Dropping user code is running user code: not on this thread.
                self.collect_after(work, Points::default());
            }
        }
        self.streams[stream as usize].held.push_front(held);
        if failed {
            self.finish_in_software(stream);
        }
    }

    /// The failure of a host function that is not to run any more.
    fn withdrawn_host(&mut self, task: &Task, work: &HostWork) -> Option<FailureRef> {
        let failure = self.withdrawn(task)?;
        let reason = failure.reason.clone();
        Some(Failure::not_run(&work.name, reason))
    }

    /// The resources of a host function that may run now, if it asks for any, or why it cannot run.
    fn host_resources(
        &mut self,
        task: &Task,
        work: &HostWork,
    ) -> Result<Option<Box<dyn Any + Send>>, FailureRef> {
        self.resolve(task)
            .and_then(|()| crate::settle::inputs(&self.table, &self.bound))
            .map_err(|cause| Failure::input(&work.name, cause))?;
        if !work.resources {
            return Ok(None);
        }
        match self.backend.resources(&self.bound) {
            Ok(resources) => Ok(Some(resources)),
            Err(refused) => Err(self.loss.refusal(&mut self.backend, &work.name, refused)),
        }
    }

    /// A host function ended, or panicked with this message.
    pub fn host_finished(&mut self, token: HostToken, outcome: Result<(), String>) {
        if self.is_lost() || self.is_abandoned {
            self.host_names.remove(&token.stream);
            return;
        }
        let Some(actor) = self.streams.get_mut(token.stream as usize) else {
            return;
        };
        if actor.parked != Parked::HostRuns || actor.issued + 1 != token.sequence {
            return;
        }
        let Some(mut held) = actor.held.pop_front() else {
            return;
        };
        if let Some(terms) = held.task.terms() {
            terms.ends_on_host();
        }
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

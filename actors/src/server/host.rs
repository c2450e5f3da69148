//! Host functions: user code in the order of a stream. A host function waits in software until everything before it has
//! completed, and runs on a thread for user code. So it never blocks other streams of its queue.

use std::any::Any;

use millstream_protocol::{
    Backend, Binding, Error, Failure, FailureRef, HostFn, HostNeeds, HostOutcome, HostSource,
    HostWork, Op, OwnedBytes, Point, Release, RestFn, Task, TaskExtras,
};

use super::issue::IssueOutcome;
use super::{Effect, HostToken, Server};
use crate::stream_actor::HeldTask;
use millstream_state::points::Points;

impl<B: Backend> Server<B> {
    /// Parks a stream whose first task is a host function, and starts the function if its dependencies have completed.
    pub(super) fn park_host(&mut self, stream: u32) -> IssueOutcome {
        self.scheduler.park_on_host(stream);
        self.end_batch(self.scheduler.queue_of(stream));
        self.start_ready_hosts();
        IssueOutcome::Parked
    }

    /// Issues the copy that a host function begins with, and parks its stream until the copy has completed.
    #[cold]
    pub(super) fn issue_download(
        &mut self,
        stream: u32,
        mut held: Box<HeldTask>,
        resolved: Result<(), FailureRef>,
        point: Point,
    ) -> IssueOutcome {
        if let Op::Host(work) = &mut held.task.op {
            self.download(work, resolved, point);
        }
        self.scheduler.put_back_after(stream, held, point.cursor);
        self.park_host(stream)
    }

    /// Calls the device for the copy that a host function begins with.
    fn download(&mut self, work: &mut HostWork, resolved: Result<(), FailureRef>, point: Point) {
        let needs = std::mem::replace(&mut work.needs, HostNeeds::Nothing);
        let outcome = match (needs, resolved, self.scratch.bound.first()) {
            (HostNeeds::Download(landing), Ok(()), Some(source)) => {
                self.device.download(landing, &work.name, source, point)
            }
            (_, resolved, _) => resolved,
        };
        if let Err(failure) = outcome {
            self.device.mark(point);
            work.needs = HostNeeds::Refused(failure);
        }
    }

    /// Starts the host functions whose dependencies have completed.
    pub(super) fn start_ready_hosts(&mut self) {
        while let Some((stream, sequence, held)) = self.scheduler.next_ready_host() {
            self.start_host(HostToken { stream, sequence }, held);
        }
    }

    fn start_host(&mut self, token: HostToken, mut held: Box<HeldTask>) {
        let stream = token.stream;
        let withdrawn = self.withdrawn(&held.task);
        let Op::Host(mut work) = std::mem::replace(&mut held.task.op, Op::Taken) else {
            debug_assert!(false, "only a host function waits to run on the host");
            return self.scheduler.put_first_back(stream, held);
        };
        let outcome = match withdrawn {
            Some(failure) => Err(failure),
            None => self.host_resources(&held.task, &work),
        };
        match outcome {
            Ok(resources) => {
                if let Some(terms) = held.task.terms() {
                    terms.begins_on_host();
                }
                self.scheduler.host_begins(stream, held, work.name.clone());
                work.run = with_release(work.run, Release::begin(&self.table));
                self.effects.push_back(Effect::Host {
                    work: *work,
                    resources,
                    token,
                });
            }
            Err(failure) => {
                answer_caller(&mut work, self.device.error_of(failure.clone()));
                self.fail(&mut held.task, failure);
                // Dropping user code runs user code, so not on this thread.
                self.collect_after(work, Points::default());
                self.finish_in_software(stream, held);
            }
        }
    }

    /// Returns the resources of a host function that may run now, if it requested any, or the failure because of which
    /// it cannot run.
    fn host_resources(
        &mut self,
        task: &Task,
        work: &HostWork,
    ) -> Result<Option<Box<dyn Any + Send>>, FailureRef> {
        self.resolve(task)
            .and_then(|()| millstream_protocol::settle::inputs(&self.table, &self.scratch.bound))
            .map_err(|cause| Failure::input(&work.name, cause))?;
        match &work.needs {
            HostNeeds::Nothing | HostNeeds::Download(_) => Ok(None),
            HostNeeds::Refused(failure) => Err(failure.clone()),
            HostNeeds::Resources => {
                let resources = self.device.resources(&work.name, &self.scratch.bound);
                resources.map(Some)
            }
        }
    }

    /// Finishes a host function that has ended.
    pub fn host_finished(&mut self, token: HostToken, outcome: HostOutcome) {
        if self.device.has_ended() {
            self.scheduler.forget_host(token.stream);
            return self.discard_outcome(outcome);
        }
        let ended = self.scheduler.host_ends(token.stream, token.sequence);
        let Some((mut held, name)) = ended else {
            return self.discard_outcome(outcome);
        };
        if let Some(terms) = held.task.terms() {
            terms.ends_on_host();
        }
        match outcome {
            HostOutcome::Completed => {
                // The function has overwritten these bytes, so they are healed, whenever their failure was found.
                if self.resolve(&held.task).is_ok() {
                    millstream_protocol::settle::outputs(&self.table, &self.scratch.bound, &Ok(()));
                }
                self.heal(&held.task);
            }
            HostOutcome::Arrived(bytes) => return self.go_on_as_copy(token, held, bytes),
            HostOutcome::Panicked(message) => {
                let name = name.unwrap_or_else(|| self.objects.names.other.clone());
                let failure = Failure::panicked(&name, message);
                self.fail(&mut held.task, failure);
            }
            HostOutcome::Failed(failure) => self.fail(&mut held.task, failure),
        }
        self.finish_in_software(token.stream, held);
    }

    /// Makes a task of the host that has ended a copy in of `bytes`, to be issued next in its stream. Its dependencies
    /// have completed, so it waits for a turn only.
    fn go_on_as_copy(&mut self, token: HostToken, mut held: Box<HeldTask>, bytes: OwnedBytes) {
        if let Some(terms) = held.task.terms() {
            let deadline = terms.deadline();
            self.forget_withdrawal((token.stream, token.sequence), deadline);
        }
        held.task.op = Op::CopyIn(HostSource::Owned(bytes));
        // A copy in has its target first.
        let written = |binding: &Binding| binding.access.writes();
        if let Some(index) = held.task.bindings.iter().position(written) {
            held.task.bindings.swap(0, index);
        }
        // Its terms have counted it as ended, and cannot withdraw it any more.
        held.task.extra = TaskExtras::default();
        self.scheduler.put_first_back(token.stream, held);
        self.scheduler.unpark(token.stream);
        self.scheduler.resume(token.stream);
    }

    /// Drops the outcome of a host function that nothing waits for. Its bytes may be a value of the user.
    fn discard_outcome(&mut self, outcome: HostOutcome) {
        if let HostOutcome::Arrived(bytes) = outcome {
            self.collect_after(Box::new(bytes), Points::default());
        }
    }
}

/// Ends `release` with the code. What the closure owns is dropped when it returns, and may include the last handle of a
/// slice.
fn with_release(run: HostFn, release: Release) -> HostFn {
    Box::new(move |done, resources| {
        let rest = run(done, resources);
        rest.map(|rest| {
            Box::new(move || {
                rest();
                drop(release);
            }) as RestFn
        })
    })
}

/// Answers the caller of a host function that does not run, if it waits for an answer.
pub(super) fn answer_caller(work: &mut HostWork, error: Error) {
    if let Some(answer) = work.on_failure.take() {
        answer(error);
    }
}

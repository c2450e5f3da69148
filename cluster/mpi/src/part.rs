//! The part of this rank in a call, which its lane and its job share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use millstream::{Failure, FailureRef, Reason};
use millstream_cluster::{Announcement, EnteredContext, NetworkPart};

use crate::comm::Comm;
use crate::job::until;
use crate::raw::MpiError;

/// The part of this rank, or why it has failed.
pub(crate) type Outcome = Result<NetworkPart, FailureRef>;

/// The part of this rank in a call, once it has begun. The job of the call uses its memory; the owner of the job ends it.
#[derive(Clone, Default)]
pub(crate) struct Part(Rc<State>);

#[derive(Default)]
struct State {
    /// `None` before it begins.
    outcome: RefCell<Option<Outcome>>,
    stage: Cell<Stage>,
    /// The stage that its lane lets it reach.
    may_reach: Cell<Stage>,
}

/// How far a call is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Default, Debug)]
pub(crate) enum Stage {
    #[default]
    Announced,
    /// The check of a collective has started; the header of a receive has come.
    Checked,
    /// The data moves: until the job has ended, MPI may access the memory of the part.
    Moves,
}

impl Part {
    pub(crate) fn begin(&self, outcome: Outcome) {
        *self.0.outcome.borrow_mut() = Some(outcome);
    }

    /// Drops the part, which fails it. Its job does not go on.
    pub(crate) fn abandon(&self) {
        drop(self.0.outcome.take());
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.0.outcome.borrow().is_some()
    }

    pub(crate) fn stage(&self) -> Stage {
        self.0.stage.get()
    }

    pub(crate) fn let_reach(&self, stage: Stage) {
        self.0.may_reach.set(stage);
    }

    /// Waits until the call may go on to a stage, with the part if that `needs_part`, or until the group is broken.
    pub(crate) async fn reach(
        &self,
        stage: Stage,
        needs_part: bool,
        comm: &Comm,
    ) -> Result<(), MpiError> {
        let is_ready = || self.0.may_reach.get() >= stage && (!needs_part || self.has_begun());
        until(|| comm.error().is_some() || is_ready()).await;
        match comm.error() {
            Some(error) => Err(error.clone()),
            None => {
                self.0.stage.set(stage);
                Ok(())
            }
        }
    }

    /// Returns why it has failed.
    pub(crate) fn failure(&self) -> Option<FailureRef> {
        let outcome = self.0.outcome.borrow();
        outcome.as_ref()?.as_ref().err().cloned()
    }

    /// Calls `f` with the part, unless it has failed. If `f` does, the part fails with that.
    pub(crate) fn with<R>(
        &self,
        call: &Announcement,
        f: impl FnOnce(&mut NetworkPart) -> Result<R, Reason>,
    ) -> Option<R> {
        let result = f(self.0.outcome.borrow_mut().as_mut()?.as_mut().ok()?);
        result.map_err(|reason| self.refuse(call, reason)).ok()
    }

    /// Fails it.
    pub(crate) fn refuse(&self, call: &Announcement, reason: Reason) {
        self.fail_by(Failure::not_run(&call.name.into(), reason));
    }

    /// Fails it, unless it has failed by itself.
    pub(crate) fn fail_by(&self, cause: FailureRef) {
        if let Some(part) = self.take(cause.clone()) {
            part.fail_by(cause);
        }
    }

    /// Completes it, unless it has failed.
    pub(crate) fn complete(&self, call: &Announcement) {
        let over = Failure::not_run(&call.name.into(), Reason::Closed);
        if let Some(part) = self.take(over) {
            part.complete();
        }
    }

    fn take(&self, cause: FailureRef) -> Option<NetworkPart> {
        let mut outcome = self.0.outcome.borrow_mut();
        let outcome = outcome.as_mut().filter(|outcome| outcome.is_ok())?;
        std::mem::replace(outcome, Err(cause)).ok()
    }

    /// Makes the context of its device current on this thread.
    pub(crate) fn enter(&self) -> Option<EnteredContext> {
        let mut outcome = self.0.outcome.borrow_mut();
        // A lost device has none; MPI is polled nevertheless.
        let part = outcome.as_mut()?.as_mut().ok()?;
        EnteredContext::of(part).ok().flatten()
    }
}

//! Loss: what the server does once its device is gone.
//!
//! A call of the backend that says so is *noticed* where it was made; what goes on in that step touches no
//! page any more. The actor then calls [`Server::wreck`], after which the server only refuses: everything
//! held and everything that still comes is answered with [`Error::DeviceLost`] (I5), and nothing is freed
//! on the device. User code in tasks is handed out to be dropped elsewhere.

use std::sync::Arc;

use millstream_protocol::backend::Backend;
use millstream_protocol::device_status::Gone;
use millstream_protocol::error::Error;
use millstream_protocol::error::Refused;
use millstream_protocol::failure::{Failure, FailureRef, Reason};
use millstream_protocol::health::Recovery;
use millstream_protocol::id::{Point, StreamId};
use millstream_protocol::message::Rare;
use millstream_protocol::message::{HostSource, HostWork, Op, Registration, Task};

use super::{Effect, Server};
use crate::observers::journal::Journal;
use crate::points::Points;

/// Whether the device is gone, and who is to know.
pub(super) struct Loss {
    pub(super) gone: Arc<Gone>,
    pub(super) noticed: bool,
    /// Tasks that were accepted and will not be issued.
    pub(super) tasks: u64,
    /// What was taken, if that is logged. Left to who asks when the device is lost.
    pub(super) journal: Option<Box<Journal>>,
    /// The device is closed, and nothing is issued any more.
    abandoned: bool,
}

impl Loss {
    pub(super) fn new(journal: Option<Box<Journal>>) -> Self {
        Self {
            gone: Arc::default(),
            noticed: false,
            tasks: 0,
            journal,
            abandoned: false,
        }
    }

    /// Is the device closed, so that nothing is issued any more?
    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned
    }

    /// The device is closed.
    pub(super) fn abandon(&mut self) {
        self.abandoned = true;
    }

    /// The device is gone. Everybody can know before anybody is answered.
    #[cold]
    pub(super) fn notice<B: Backend>(&mut self, backend: &mut B, why: &str) {
        if self.noticed {
            return;
        }
        self.noticed = true;
        let recovery = backend.recovery();
        let (device, epoch) = (&backend.properties().name, self.gone.epoch());
        tracing::error!(target: "millstream::device", device, epoch, why, ?recovery, "the device is lost");
        // The log first: who is told of the loss finds it.
        if let Some(mut journal) = self.journal.take() {
            self.gone.leave_log(journal.take());
        }
        self.gone.set_lost(recovery);
    }

    /// A refusal as a failure.
    #[cold]
    pub(super) fn refusal<B: Backend>(
        &mut self,
        backend: &mut B,
        name: &Arc<str>,
        refused: Refused,
    ) -> FailureRef {
        match refused {
            Refused::Task(why) => Failure::not_run(name, Reason::Refused(why)),
            Refused::Panicked(message) => Failure::panicked(name, message),
            Refused::Lost(why) => {
                self.notice(backend, &why);
                Failure::not_run(name, Reason::Lost)
            }
        }
    }
}

impl<B: Backend> Server<B> {
    /// The same server, whose end reaches others by `gone`.
    pub fn with_gone(mut self, gone: Arc<Gone>) -> Self {
        self.loss.gone = gone;
        self
    }

    /// Is the device gone? Then [`Server::wreck`] is next, and after it nothing but [`Server::lose`],
    /// [`Server::honour_drops`], [`Server::host_finished`] and taking effects.
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.loss.noticed
    }

    /// What helps, if the device is gone.
    pub fn recovery(&self) -> Option<Recovery> {
        self.loss.gone.lost()
    }

    /// The timeline of a queue has ended by itself: the device is gone.
    pub fn timeline_ended(&mut self) {
        if self.loss.is_abandoned() {
            // The close has ended it.
            return;
        }
        self.loss
            .notice(&mut self.backend, "the timeline of a queue has ended");
    }

    /// Tasks that were accepted and will not be issued, of a device that is gone.
    pub fn tasks_lost(&self) -> u64 {
        self.loss.tasks
    }

    /// Does user code run that may look at the device's memory: a host function, or whoever holds a guard?
    pub fn user_code_runs(&self) -> bool {
        self.scheduler.host_runs()
    }

    /// Leaves its pages to a lost device, and tells their bytes.
    pub fn leave_pages(&self) -> u64 {
        let bytes = self.memory.usage().reserved;
        self.loss.gone.leave_bytes(bytes);
        bytes
    }

    /// Answers everything that is held, and forgets every object of the lost device. To be called once,
    /// after the mailbox was closed and the timelines were ended.
    pub fn wreck(&mut self) {
        self.loss.gone.end_credits();
        self.table.sink().staging.end();
        for (_, stream) in self.scheduler.streams() {
            stream.credit.end();
        }
        for effect in self.effects.take_all() {
            match effect {
                // It was about to run, and has not.
                Effect::Host { work, token, .. } => {
                    self.scheduler.host_ends(token.stream);
                    self.loss.tasks += 1;
                    let actor = self.scheduler.get_mut(token.stream);
                    if let Some(held) = actor.and_then(|actor| actor.held.front_mut()) {
                        if let Some(terms) = held.task.terms() {
                            terms.never_began_on_host();
                        }
                        // It is counted.
                        held.task.extra = Rare::default();
                    }
                    self.lose_op(Op::Host(Box::new(work)), Points::default());
                }
                // Its points will not pass, or have: the GC actor knows.
                effect @ Effect::Collect { .. } => self.effects.push(effect),
                Effect::Watch(_) => {}
            }
        }
        for key in self.scheduler.keys() {
            let stream = self.scheduler.stream_mut(key);
            let last = stream.last_point();
            stream.waiters.clear();
            for mut held in std::mem::take(&mut stream.held) {
                self.lose_task(&mut held.task, last);
            }
        }
        // Charges of the lost epoch are credited now: its handles may live for long.
        for slice in self.hazards.ids() {
            if let Some(slot) = self.table.slot(slice.index()) {
                slot.payload().charge.end();
            }
        }
        let gone = &self.loss.gone;
        self.observers.profiles_mut().lose(|| gone.error());
        self.objects.unlink_all();
        self.scheduler.lose();
        self.drops.lose();
        self.memory.end_line();
        self.askers.forget();
        self.table.sink().releases.forget_wait();
    }

    /// Answers a message that came too late. It is left with nothing to be dropped.
    pub fn lose(&mut self, message: &mut Task) {
        self.drops.pass();
        let last = match message.op {
            Op::DropAfter(_) => self.last_of(message.stream),
            _ => None,
        };
        self.lose_task(message, last);
    }

    /// How far a stream has come that may be forgotten already. Looks through all of them.
    fn last_of(&self, stream: Option<StreamId>) -> Option<Point> {
        let mut streams = self.scheduler.streams().map(|(_, stream)| stream);
        streams.find(|actor| Some(actor.id) == stream)?.last_point()
    }

    /// Answers a task, whose stream has come as far as `last`.
    fn lose_task(&mut self, task: &mut Task, last: Option<Point>) {
        if let Some(terms) = task.terms() {
            match task.op {
                // A host function's operation is taken out of its task while it runs.
                Op::Taken => terms.ends_on_host(),
                _ => terms.removed(),
            }
        }
        task.extra = Rare::default();
        if let Op::Reserve { .. } = task.op
            && let Some(binding) = task.bindings.first()
            && let Some(slot) = self.table.slot(binding.slice.index())
        {
            slot.payload().charge.end();
        }
        let mut after = Points::default();
        if matches!(task.op, Op::DropAfter(_))
            && let Some(last) = last
        {
            // What came before it may be using the value.
            after.insert(last);
        }
        let op = std::mem::replace(&mut task.op, Op::Taken);
        self.loss.tasks += u64::from(!matches!(
            op,
            Op::Taken | Op::Ask(_) | Op::Register(_) | Op::Flush
        ));
        self.lose_op(op, after);
    }

    /// Answers who waits for an operation. What it has of users is dropped elsewhere, once `after` has passed.
    fn lose_op(&mut self, op: Op, after: Points) {
        let lost = || self.loss.gone.error();
        match op {
            Op::CopyOut(copy) => copy.reply.send(Err(lost())),
            Op::Answer(reply) => reply.send(Err(lost())),
            Op::Host(mut work) => {
                if let Some(told) = work.told.take() {
                    told(lost());
                }
                self.discard(work, after);
            }
            Op::Register(registration) => {
                if let Registration::Stream { credit, .. } = &*registration {
                    credit.end();
                }
                self.discard(registration, after);
            }
            Op::CopyIn(HostSource::Owned(bytes)) => self.discard(Box::new(bytes), after),
            Op::Custom(custom) => self.discard(custom, after),
            Op::DropAfter(value) => self.discard(value, after),
            // Askers are told by the end of their replies.
            _ => {}
        }
    }

    fn discard(&mut self, value: Box<dyn std::any::Any + Send>, after: Points) {
        self.collect_after(value, after);
    }
}

/// Answers the caller of a host function that cannot run: with the failure of the data, not that a function did not run over it; or
/// with the loss of the device.
pub(super) fn tell(work: &mut HostWork, failure: &FailureRef, gone: &Gone) {
    if let Some(told) = work.told.take() {
        told(match gone.lost() {
            Some(_) => gone.error(),
            None => Error::Failed(failure.cause().unwrap_or_else(|| failure.clone())),
        });
    }
}

//! Loss: what the server does once its device is gone.
//!
//! A call of the backend that says so is *noticed* where it was made; what goes on in that step touches no
//! page any more. The actor then calls [`Server::wreck`], after which the server only refuses: everything
//! held and everything that still comes is answered with [`Error::DeviceLost`] (I5), and nothing is freed
//! on the device. User code in tasks is handed out to be dropped elsewhere.

use std::sync::Arc;

use millstream_protocol::backend::Backend;
use millstream_protocol::gone::Gone;
use millstream_protocol::health::Recovery;
use millstream_protocol::id::Point;
use millstream_protocol::message::Rare;
use millstream_protocol::message::{HostSource, Op, Registration, Task};

use super::host::answer_caller;
use super::{Effect, Server};
use crate::points::Points;

impl<B: Backend> Server<B> {
    /// The same server, whose end reaches others by `gone`.
    pub fn with_gone(mut self, gone: Arc<Gone>) -> Self {
        self.device.share_end(gone);
        self
    }

    /// Is the device gone? Then [`Server::wreck`] is next, and after it nothing but [`Server::lose`],
    /// [`Server::honour_drops`], [`Server::host_finished`] and taking effects.
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.device.is_lost()
    }

    /// What helps, if the device is gone.
    pub fn recovery(&self) -> Option<Recovery> {
        self.device.gone().lost()
    }

    /// The timeline of a queue has ended by itself: the device is gone.
    pub fn timeline_ended(&mut self) {
        if self.device.is_closed() {
            // The close has ended it.
            return;
        }
        self.device.lose("the timeline of a queue has ended");
    }

    /// Tasks that were accepted and will not be issued, of a device that is gone.
    pub fn tasks_lost(&self) -> u64 {
        self.tasks_lost
    }

    /// Does user code run that may look at the device's memory: a host function, or whoever holds a guard?
    pub fn user_code_runs(&self) -> bool {
        self.scheduler.host_runs()
    }

    /// Leaves its pages to a lost device, and tells their bytes.
    pub fn leave_pages(&self) -> u64 {
        let bytes = self.memory.usage().reserved;
        self.device.gone().leave_bytes(bytes);
        bytes
    }

    /// Answers everything that is held, and forgets every object of the lost device. To be called once,
    /// after the mailbox was closed and the timelines were ended.
    pub fn wreck(&mut self) {
        self.device.gone().end_credits();
        self.table.sink().staging.end();
        self.scheduler.end_credits();
        for effect in self.effects.take_all() {
            match effect {
                // It was about to run, and has not.
                Effect::Host { work, token, .. } => {
                    self.scheduler.host_never_begins(token.stream);
                    self.tasks_lost += 1;
                    self.lose_op(Op::Host(Box::new(work)), Points::default());
                }
                // Its points will not pass, or have: the GC actor knows.
                effect @ Effect::Collect { .. } => self.effects.push(effect),
                Effect::Watch(_) => {}
            }
        }
        for remains in self.scheduler.lose() {
            for mut held in remains.held {
                self.lose_task(&mut held.task, remains.last);
            }
        }
        // Charges of the lost epoch are credited now: its handles may live for long.
        for slice in self.hazards.ids() {
            if let Some(slot) = self.table.slot(slice.index()) {
                slot.payload().charge.end();
            }
        }
        let gone = self.device.gone();
        self.observers.profiles_mut().lose(|| gone.error());
        self.objects.unlink_all();
        self.drops.lose();
        self.memory.end_line();
        self.askers.forget();
        self.table.sink().releases.forget_wait();
    }

    /// Answers a message that came too late. It is left with nothing to be dropped.
    pub fn lose(&mut self, message: &mut Task) {
        self.drops.pass();
        let last = match message.op {
            Op::DropAfter(_) => message.stream.and_then(|id| self.scheduler.last_of(id)),
            _ => None,
        };
        self.lose_task(message, last);
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
        self.tasks_lost += u64::from(!matches!(
            op,
            Op::Taken | Op::Ask(_) | Op::Register(_) | Op::Flush
        ));
        self.lose_op(op, after);
    }

    /// Answers who waits for an operation. What it has of users is dropped elsewhere, once `after` has passed.
    fn lose_op(&mut self, op: Op, after: Points) {
        let lost = || self.device.gone().error();
        match op {
            Op::CopyOut(copy) => copy.reply.send(Err(lost())),
            Op::Answer(reply) => reply.send(Err(lost())),
            Op::Host(mut work) => {
                answer_caller(&mut work, lost());
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

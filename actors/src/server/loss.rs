//! Loss and close: what the server does once its device is lost, or is closed with tasks left.
//!
//! The call of the backend that reports the loss sets the state ([`Device::mark_lost`](crate::server::device)); the rest of that
//! step touches no page. The actor then calls [`Server::end_epoch`]. Afterwards the server only refuses: it answers every
//! held and every later message with [`Error::DeviceLost`](millstream_protocol::Error::DeviceLost) (I5), and
//! frees nothing on the device. User code in tasks is handed to the actors, to be dropped on another thread.

use std::sync::Arc;

use millstream_protocol::{
    Backend, DeviceStatus, Error, HostSource, Op, Point, Recovery, Registration, Reply, Task,
    TaskExtras,
};

use super::admit::OpFlags;
use super::host::answer_caller;
use super::withdrawals::Withdrawals;
use super::{Effect, Server};
use millstream_state::points::Points;

impl<B: Backend> Server<B> {
    /// Sets the state through which other threads see the end of the device.
    pub fn with_gone(mut self, gone: Arc<DeviceStatus>) -> Self {
        self.device.gone = gone;
        self
    }

    /// Returns `true` if the device is lost. Then the actor must call [`Server::end_epoch`], and afterwards only
    /// [`Server::answer_lost`], [`Server::process_drops`], [`Server::host_finished`], and carry out the effects.
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.device.is_lost()
    }

    /// Returns what helps, if the device is lost.
    pub fn recovery(&self) -> Option<Recovery> {
        self.device.gone.lost()
    }

    /// Records that a queue's timeline has ended without a close: the device is lost.
    pub fn timeline_ended(&mut self) {
        if self.device.is_closed() {
            // The close ended it.
            return;
        }
        self.device.mark_lost("the timeline of a queue has ended");
    }

    /// Returns the number of tasks that were accepted and will not be issued, because the device is lost.
    pub fn tasks_lost(&self) -> u64 {
        self.tasks_lost
    }

    /// Returns `true` if user code runs that may access the device's memory: a host function, or a guard.
    pub fn user_code_runs(&self) -> bool {
        self.scheduler.host_runs()
    }

    /// Leaves the pages of a lost device unfreed. Returns their bytes.
    pub fn leave_pages(&self) -> u64 {
        let bytes = self.memory.pools.usage().reserved;
        self.device.gone.remains().bytes_left.add(bytes);
        bytes
    }

    /// Ends the epoch of a device that is closed with tasks left. Callers receive an error.
    ///
    /// User code in tasks is not dropped here: [`Server::take_unused_values`] returns it. Values that issued tasks may use
    /// stay until the server is dropped.
    pub fn abandon(&mut self) {
        self.device.close();
        self.end_epoch();
    }

    /// Answers everything that is held, and forgets all objects of a device that is lost or closed. Called after the
    /// mailbox was closed and the timelines were ended.
    pub fn end_epoch(&mut self) {
        self.device.gone.end_credits();
        self.table.sink().staging.end();
        self.scheduler.end();
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                // It was about to run, and did not.
                Effect::Host { work, token, .. } => {
                    self.scheduler.host_never_begins(token.stream);
                    let op = Op::Host(Box::new(work));
                    self.answer_unrun(op, self.device.gone.error(), Points::default());
                }
                // The GC actor knows whether its points have passed.
                effect => self.effects.push_back(effect),
            }
        }
        for stream in self.scheduler.keys() {
            let (held, last) = self.scheduler.take_held(stream);
            for mut held in held {
                self.tasks_lost += 1;
                self.answer_lost_task(&mut held.task, last);
            }
        }
        // Charges of the lost epoch are credited now, since its handles may live long.
        for slice in self.hazards.ids() {
            if let Some(slot) = self.table.slot(slice.index()) {
                slot.payload().charge.end();
            }
        }
        let gone = &self.device.gone;
        self.observers.profiles.fail_all(|| gone.error());
        self.objects.unlink_all();
        self.drops.end();
        self.memory.clear_wait_list();
        self.withdrawals = Withdrawals::default();
        self.table.sink().releases.forget_wait();
    }

    /// Answers a message that was admitted after the loss. It leaves nothing to drop in the slot.
    pub fn answer_lost(&mut self, message: &mut Task) {
        self.drops.message_admitted();
        let last = match message.op {
            Op::DropAfter(_) => message.stream.and_then(|id| self.scheduler.last_of(id)),
            _ => None,
        };
        self.tasks_lost += u64::from(!OpFlags::of(&message.op).has(OpFlags::CONTROL));
        self.answer_lost_task(message, last);
    }

    /// Answers a task. `last` is the last point of its stream.
    fn answer_lost_task(&mut self, task: &mut Task, last: Option<Point>) {
        if let Some(terms) = task.terms() {
            match task.op {
                // The operation of a host function is taken out of its task while it runs.
                Op::Taken => terms.ends_on_host(),
                _ => terms.removed(),
            }
        }
        task.extra = TaskExtras::default();
        if let Op::Reserve { .. } = task.op
            && let Some(binding) = task.bindings.first()
            && let Some(slot) = self.table.slot(binding.slice.index())
        {
            slot.payload().charge.end();
        }
        // Earlier tasks may use the value.
        let last = last.filter(|_| matches!(task.op, Op::DropAfter(_)));
        let after = Points::from_iter(last);
        let op = std::mem::replace(&mut task.op, Op::Taken);
        self.answer_unrun(op, self.device.gone.error(), after);
    }

    /// Answers the caller of an operation that will not run with `error`. Its user code and values are dropped on another
    /// thread once `after` has passed.
    pub(super) fn answer_unrun(&mut self, op: Op, error: Error, after: Points) {
        match op {
            Op::CopyOut(copy) => copy.reply.send(Err(error)),
            Op::Answer(reply) => Reply::send(reply, Err(error)),
            Op::Host(mut work) => {
                answer_caller(&mut work, error);
                self.collect_after(work, after);
            }
            Op::Register(registration) => {
                if let Registration::Stream(stream) = &*registration {
                    stream.credit.end();
                }
                self.collect_after(registration, after);
            }
            Op::CopyIn(HostSource::Owned(bytes)) => self.collect_after(Box::new(bytes), after),
            Op::Custom(custom) => self.collect_after(custom, after),
            Op::DropAfter(value) => self.collect_after(value, after),
            // Dropping the reply answers the caller.
            _ => {}
        }
    }
}

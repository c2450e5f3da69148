//! Calls that submit several tasks: reservations, and tasks that write the slices.
//!
//! A call that may wait for room submits one after the other, and waits for each: the limit of its stream may be one
//! task. Any other call submits all or none: it first acquires the credit of all, and then their slots of the mailbox; or
//! it waits for each slot, if it is user code on a thread for it.

use std::sync::Arc;

use millstream_protocol::{
    Access, AllocationMode, ArgumentError, ArgumentErrorKind, Binding, Error, Holding, Limit, Op,
    Refusal, SliceId, Slot, SlotRef, StreamId, Task, marks::runs_user_code,
};
use smallvec::SmallVec;

use crate::{Returned, Stream};

/// Credit for tasks that are not sent yet. Releases it if dropped.
pub(crate) struct TaskCredit<'a> {
    stream: &'a Stream,
    tasks: u64,
}

impl TaskCredit<'_> {
    /// Keeps the credit: the tasks are sent, and the device releases it.
    pub(crate) fn sent(mut self) {
        self.tasks = 0;
    }
}

impl Drop for TaskCredit<'_> {
    fn drop(&mut self) {
        self.stream.credit().release(self.tasks);
    }
}

/// A slot of the table that is charged to its client, and of which the device does not know. Ends the charge if dropped.
pub(crate) struct NewSlice {
    /// `None` once the reservation is sent.
    hold: Option<SlotRef>,
    binding: Binding,
    mode: Option<AllocationMode>,
}

impl NewSlice {
    pub(crate) fn new(hold: SlotRef, bytes: u64, mode: Option<AllocationMode>) -> Self {
        let binding = Binding::new(SliceId(hold.id()), 0, bytes, Access::Write);
        Self {
            hold: Some(hold),
            binding,
            mode,
        }
    }

    /// Returns the binding of a task that writes all of the slice.
    pub(crate) fn binding(&self) -> Binding {
        self.binding
    }

    /// Begins the charge of its bytes, for which the caller took the credit.
    pub(crate) fn charge(&self, limit: &Arc<Limit>, holding: Option<&Arc<Holding>>) {
        if let Some(hold) = self.hold.as_ref().filter(|_| self.binding.len > 0) {
            let charge = &hold.payload().charge;
            charge.begin(limit.clone(), self.binding.len, holding.cloned());
        }
    }

    /// Keeps the charge: the reservation is sent.
    fn sent(mut self) -> SlotRef {
        match self.hold.take() {
            Some(hold) => hold,
            None => unreachable!("it is taken here alone"),
        }
    }
}

impl Drop for NewSlice {
    fn drop(&mut self) {
        if let Some(hold) = &self.hold {
            // Neither a handle nor a task holds the slot, so nothing else would end the charge.
            hold.payload().charge.clear();
        }
    }
}

/// The room for the tasks of a call.
pub(crate) enum Room<'a> {
    /// The call waits for room when it submits each task.
    Awaited,
    /// The credit of all tasks.
    All(TaskCredit<'a>),
}

/// The slots of the mailbox that a call has reserved; it waits for the others when it sends.
pub(crate) type Slots<'a> = smallvec::IntoIter<[Slot<'a>; 2]>;

impl Stream {
    /// Acquires credit for `tasks`.
    pub(crate) fn task_credit(&self, tasks: u64) -> Result<TaskCredit<'_>, Error> {
        let stream = self;
        self.acquire_tasks(tasks)?;
        Ok(TaskCredit { stream, tasks })
    }

    /// Acquires the credit of all `tasks`, unless the call may wait for each.
    pub(crate) fn room_for(&self, tasks: usize) -> Result<Room<'_>, Error> {
        match self.device().may_wait(self.waits()) {
            true => Ok(Room::Awaited),
            false => self.task_credit(tasks as u64).map(Room::All),
        }
    }

    /// Submits the reservation of a slice, and a task that `op` makes of `value` and `fill` completes. Hands `value` back
    /// if that task is not sent.
    pub(crate) fn submit_two<V>(
        &self,
        room: Room<'_>,
        slice: NewSlice,
        value: V,
        op: impl FnOnce(V) -> Op,
        fill: impl FnOnce(&mut Task),
    ) -> Result<SlotRef, Returned<V>> {
        let credit = match room {
            Room::All(credit) => credit,
            Room::Awaited => {
                return match self.submit_reservation(slice) {
                    Ok(hold) => self.submit_value(value, op, fill).map(|()| hold),
                    Err(error) => Err(Returned { value, error }),
                };
            }
        };
        let begun = self
            .registered_id()
            .and_then(|stream| Ok((stream, self.slots(2)?)));
        let (stream, mut slots) = match begun {
            Ok(begun) => begun,
            Err(error) => return Err(Returned { value, error }),
        };
        // Nothing but the end of the device fails from here on.
        credit.sent();
        let sent = self.next_slot(&mut slots).and_then(|first| {
            let hold = self.send_reservation((stream, first), slice);
            Ok((hold, self.next_slot(&mut slots)?))
        });
        let (hold, second) = match sent {
            Ok(sent) => sent,
            Err(error) => return Err(Returned { value, error }),
        };
        self.send((stream, second), op(value), fill);
        Ok(hold)
    }

    /// Submits the reservation of a slice.
    pub(crate) fn submit_reservation(&self, slice: NewSlice) -> Result<SlotRef, Error> {
        Ok(self.send_reservation(self.task_slot()?, slice))
    }

    pub(crate) fn send_reservation(&self, slot: (StreamId, Slot<'_>), slice: NewSlice) -> SlotRef {
        let op = Op::Reserve {
            client: self.client().shared.id,
            mode: slice.mode,
            position: 0,
        };
        self.send(slot, op, |task| task.push_binding(slice.binding));
        slice.sent()
    }

    /// Reserves the slots of `tasks` in the mailbox, or none. On a thread for user code, which waits for the mailbox, only
    /// the first: the device takes no message behind a reserved slot, so two threads that wait with one each would wait
    /// for ever.
    pub(crate) fn slots(&self, tasks: usize) -> Result<Slots<'_>, Error> {
        if self.waits() && runs_user_code() {
            return Ok(SmallVec::from_iter([self.device().reserve(true)?]).into_iter());
        }
        // As many as the device has at least.
        let capacity = self.device().settings().mailbox_capacity.max(2);
        if tasks > capacity {
            let message = format!(
                "{tasks} tasks at once exceed the {capacity} messages of the mailbox; make fewer tensors in one call, wait, or raise `mailbox_capacity`"
            );
            return Err(ArgumentError::new(ArgumentErrorKind::TooLarge, message).into());
        }
        let channel = self.device().channel();
        // If the mailbox has no room for all, the first ones are dropped, which sends empty messages.
        let slots = (0..tasks).map(|_| Slot::reserve(channel, false));
        match slots.collect::<Result<SmallVec<_>, Refusal>>() {
            Ok(slots) => Ok(slots.into_iter()),
            Err(Refusal::Full) if self.waits() => Err(self.device().refused(Refusal::NoWait)),
            Err(refusal) => Err(self.device().refused(refusal)),
        }
    }

    /// Returns the next slot.
    pub(crate) fn next_slot<'a>(&'a self, slots: &mut Slots<'a>) -> Result<Slot<'a>, Error> {
        slots.next().map_or_else(|| self.device().reserve(true), Ok)
    }
}

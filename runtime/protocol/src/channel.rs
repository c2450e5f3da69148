//! What carries messages to a device.
//!
//! Two channels exist: the mailbox of a device that runs by itself, and the direct one of a driven
//! device, whose messages are taken when its owner pumps or somebody waits. Both keep one total
//! order of messages, which all hazards are judged in (I1).

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::task::{Poll, Waker};
use std::time::Instant;

use millstream_sync::mailbox::{Reserved, RoomPlace};

use crate::id::StreamId;
use crate::message::{Op, Task};

/// A slot of a device's mailbox, reserved for a message. Dropped without one it sends a message that does nothing, since messages
/// behind it wait for it.
///
/// This is the way of every task: what is here stays in registers, so its parts are plain fields that are read one by one.
pub struct Slot<'a> {
    channel: &'a dyn ComputeChannel,
    task: NonNull<MaybeUninit<Task>>,
    position: u64,
}

impl<'a> Slot<'a> {
    /// Reserves a slot; `wait`s for one, if need be.
    ///
    /// # Errors
    /// As [`ComputeChannel::reserve`] and [`ComputeChannel::try_reserve`].
    #[inline(always)]
    pub fn reserve(channel: &'a dyn ComputeChannel, wait: bool) -> Result<Self, Refusal> {
        let reserved = match wait {
            true => channel.reserve(),
            false => channel.try_reserve(),
        };
        let (task, position) = reserved?.into_parts();
        Ok(Self {
            channel,
            task,
            position,
        })
    }

    /// Begins the message in its slot.
    #[inline(always)]
    pub fn begin(self, stream: Option<StreamId>, op: Op) -> Message<'a> {
        let (channel, mut task, position) = (self.channel, self.task, self.position);
        std::mem::forget(self);
        // SAFETY: the slot is this producer's alone until it is committed.
        unsafe { task.as_mut() }.write(Task::new(stream, op));
        Message {
            channel,
            task: task.cast(),
            position,
        }
    }

    /// Sends a message that is moved into the slot.
    pub fn send(self, task: Task) {
        let mut message = self.begin(None, Op::Taken);
        *message = task;
        message.send();
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        // SAFETY: as in `begin`; written, it is committed, here and nowhere else.
        unsafe {
            self.task.as_mut().write(Task::new(None, Op::Taken));
            let slot = Reserved::from_parts(self.task, self.position);
            self.channel.commit(slot);
        }
    }
}

/// A message in its slot, to be completed and sent. Dropped it does nothing.
#[must_use = "it is sent by `Message::send`"]
pub struct Message<'a> {
    channel: &'a dyn ComputeChannel,
    task: NonNull<Task>,
    position: u64,
}

impl Message<'_> {
    /// Sends it.
    #[inline(always)]
    pub fn send(self) {
        let (channel, task, position) = (self.channel, self.task, self.position);
        std::mem::forget(self);
        // SAFETY: the parts of a slot that was reserved in this channel; `begin` has initialized it, and what was forgotten commits
        // nothing.
        unsafe { channel.commit(Reserved::from_parts(task.cast(), position)) };
    }
}

impl Deref for Message<'_> {
    type Target = Task;

    #[inline(always)]
    fn deref(&self) -> &Task {
        // SAFETY: initialized by `Slot::begin`, and this producer's alone until it is committed.
        unsafe { self.task.as_ref() }
    }
}

impl DerefMut for Message<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Task {
        // SAFETY: as in `deref`.
        unsafe { self.task.as_mut() }
    }
}

impl Drop for Message<'_> {
    /// Making it has panicked: what there is of it goes, and a message that does nothing is sent.
    #[cold]
    fn drop(&mut self) {
        // The old value is dropped by the assignment.
        **self = Task::new(None, Op::Taken);
        // SAFETY: as in `send`; a value is dropped once.
        unsafe {
            let slot = Reserved::from_parts(self.task.cast(), self.position);
            self.channel.commit(slot);
        }
    }
}

/// Why a message was not taken. It was not built, so the sender still has everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// There is no room now.
    Full,
    /// The device is closed.
    Closed,
    /// There is no room now, and the calling thread, which the device may need, must not wait for it.
    NoWait,
}

/// A device that runs by itself and that callers may turn while its thread sleeps.
pub trait StepIn: Send + Sync + 'static {
    /// Does what the device's thread would be woken for, if a wait is expected, and says whether it need not be woken.
    fn step_in_for_a_wake(&self) -> bool;

    /// A caller waits for an answer, which may be there already.
    fn waits(&self);

    /// Does what there is to do, unless another thread does; for a caller that waits.
    fn step_in_to_wait(&self);

    /// A waker of users' is about to be left with the device: callers step in no longer.
    fn leaves_waker(&self);
}

/// A piece of user code for a thread that is not the device's.
pub type Job = Box<dyn FnOnce() + Send>;

/// What carries messages to a device.
pub trait ComputeChannel: Send + Sync + 'static {
    /// Reserves a slot for a message. May wait for room; of the runtime's threads, only those that run user code wait
    /// ([`runs_user_code`](crate::marks::runs_user_code)). Until it is committed the device receives no later message: its sender
    /// writes it and commits it, and does nothing else meanwhile.
    ///
    /// # Errors
    /// [`Refusal::Closed`]; [`Refusal::NoWait`] where it would have to wait on any other runtime thread.
    fn reserve(&self) -> Result<Reserved<Task>, Refusal>;

    /// Reserves a slot if there is one right now.
    ///
    /// # Errors
    /// [`Refusal::Full`] or [`Refusal::Closed`].
    fn try_reserve(&self) -> Result<Reserved<Task>, Refusal>;

    /// Sends the message in a slot.
    ///
    /// # Safety
    /// The slot was reserved in this channel and is initialized.
    unsafe fn commit(&self, slot: Reserved<Task>);

    /// Looks for room for one message, for a task that waits by polling: ready when there is some, which other senders
    /// may take first, or `waker` will be woken when there may be. Never blocks.
    ///
    /// # Errors
    /// [`Refusal::Closed`].
    fn poll_room(&self, place: &mut RoomPlace, waker: &Waker) -> Poll<Result<(), Refusal>>;

    /// Gives up a place that was polled for room.
    fn leave_room(&self, place: RoomPlace);

    /// Messages that wait.
    fn depth(&self) -> usize;

    /// Runs the device on the calling thread, if it needs that: a driven device. Says whether it did
    /// anything; `None` from a device that runs by itself, even if the caller has stepped in for its thread.
    fn drive(&self) -> Option<bool>;

    /// Whether callers run the device, and user code with it.
    fn is_driven(&self) -> bool {
        false
    }

    /// A caller waits for an answer, which may be there already.
    fn waits(&self) {}

    /// Sleeps, after a drive that did nothing, until another one may do something, `ready`'s waker is woken, or
    /// the deadline has passed; may return early. `ready` says whether the caller need not wait any longer. It is
    /// asked after the caller is sure to be woken, and what it waits for may keep the waker. Blocks. A device
    /// that runs by itself returns at once: nobody drives it.
    fn rest(&self, deadline: Option<Instant>, ready: &mut dyn FnMut(&Waker) -> bool);

    /// Runs user code on a thread for such, never the device's.
    fn execute(&self, job: Job);

    /// A waker of users' is about to be left with the device.
    fn leaves_waker(&self) {}

    /// Somebody's own code waits for the device without driving it: a waker was left, or user code was sent. A
    /// device that is part of a model goes on then, for nobody pumps it; any other one has nothing to do.
    fn awaited(&self) {}

    /// Somebody looks for an answer: what was done before it was given comes before what he does next. To be
    /// told in models, which do not see the answer itself.
    fn looked(&self) {}
}

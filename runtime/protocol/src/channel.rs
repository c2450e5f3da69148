//! The channel to a device, as clients use it.
//!
//! Messages go through one mailbox, in one total order, in which the server judges all hazards (I1). The device's thread
//! takes them, or a caller in its place; those of a driven device are taken when its owner pumps it or a caller waits.
//!
//! ```text
//! Slot::reserve ──► Slot::begin writes an empty task ──► Message: fill in fields ──► Message::send commits
//!      │ dropped                                              │ dropped (a panic)
//!      └────────► commits an empty message ◄──────────────────┘
//! ```
//! The device receives no message behind a reserved slot before that slot is committed. So a slot is always
//! committed, with an empty message if nothing was written.

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::task::{Poll, Waker};
use std::time::Instant;

use millstream_sync::mailbox::{Reserved, RoomPlace};

use crate::id::StreamId;
use crate::message::{Op, Task};

/// A reserved slot of a device's mailbox. If it is dropped, an empty message is sent, because later messages wait for
/// the slot.
///
/// Every task passes through here. The parts are plain fields that are read one by one, so that they stay in registers.
pub struct Slot<'a> {
    channel: &'a dyn ComputeChannel,
    task: NonNull<MaybeUninit<Task>>,
    position: u64,
}

impl<'a> Slot<'a> {
    /// Reserves a slot. Waits for room if `wait` is set.
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

    /// Starts the message in its slot.
    #[inline(always)]
    pub fn begin(self, stream: Option<StreamId>, op: Op) -> Message<'a> {
        let (channel, mut task, position) = (self.channel, self.task, self.position);
        std::mem::forget(self);
        // SAFETY: only this producer accesses the slot until it is committed.
        unsafe { task.as_mut() }.write(Task::new(stream, op));
        Message {
            channel,
            task: task.cast(),
            position,
        }
    }

    /// Sends a task that is moved into the slot.
    pub fn send(self, task: Task) {
        let mut message = self.begin(None, Op::Taken);
        *message = task;
        message.send();
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        // SAFETY: as in `begin`. The slot is written, and committed here and nowhere else.
        unsafe {
            self.task.as_mut().write(Task::new(None, Op::Taken));
            let slot = Reserved::from_parts(self.task, self.position);
            self.channel.commit(slot);
        }
    }
}

/// A message in its slot, to be filled in and sent. If it is dropped, an empty message is sent instead.
#[must_use = "the task is sent by `Message::send`"]
pub struct Message<'a> {
    channel: &'a dyn ComputeChannel,
    task: NonNull<Task>,
    position: u64,
}

impl Message<'_> {
    /// Sends the message.
    #[inline(always)]
    pub fn send(self) {
        let (channel, task, position) = (self.channel, self.task, self.position);
        std::mem::forget(self);
        // SAFETY: the parts are of a slot of this channel, which `begin` has initialized. The forgotten `self` commits
        // nothing.
        unsafe { channel.commit(Reserved::from_parts(task.cast(), position)) };
    }
}

impl Deref for Message<'_> {
    type Target = Task;

    #[inline(always)]
    fn deref(&self) -> &Task {
        // SAFETY: `Slot::begin` initialized the task, and only this producer accesses it until it is committed.
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
    /// Replaces the message by an empty one and sends that. Reached if code that fills in the message panics.
    #[cold]
    fn drop(&mut self) {
        // The assignment drops the old value.
        **self = Task::new(None, Op::Taken);
        // SAFETY: as in `send`; a value is dropped only once.
        unsafe {
            let slot = Reserved::from_parts(self.task.cast(), self.position);
            self.channel.commit(slot);
        }
    }
}

/// Why no slot was reserved. No message was built, so the caller still owns its parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The mailbox is full.
    Full,
    /// The device is closed.
    Closed,
    /// The mailbox is full, and the calling thread must not wait, because the device may need it.
    NoWait,
}

/// A device with a thread that callers may step in for while the thread sleeps.
pub trait StepIn: Send + Sync + 'static {
    /// Does the work that the device thread would be woken for, if the caller is expected to wait soon. Returns
    /// `true` if the thread need not be woken.
    fn step_in_for_a_wake(&self) -> bool;

    /// Does the work that follows the end of a host function, in place of the device thread, if a caller is expected to
    /// wait for it. Returns `true` if the thread need not be woken.
    fn step_in_for_an_end(&self) -> bool;
}

/// A piece of user code to run on a thread other than the device thread.
pub type Job = Box<dyn FnOnce() + Send>;

/// A channel to a device.
pub trait ComputeChannel: Send + Sync + 'static {
    /// Reserves a slot for a message. May wait for room; among the runtime's threads, only those that run user code
    /// wait ([`runs_user_code`](crate::marks::runs_user_code)). The device receives no later message until the slot
    /// is committed, so the caller writes it, commits it, and does nothing else in between.
    ///
    /// # Errors
    /// [`Refusal::Closed`]; [`Refusal::NoWait`] if any other runtime thread would have to wait.
    fn reserve(&self) -> Result<Reserved<Task>, Refusal>;

    /// Reserves a slot without waiting.
    ///
    /// # Errors
    /// [`Refusal::Full`] or [`Refusal::Closed`].
    fn try_reserve(&self) -> Result<Reserved<Task>, Refusal>;

    /// Sends the message in a slot.
    ///
    /// # Safety
    /// The slot was reserved in this channel and is initialized.
    unsafe fn commit(&self, slot: Reserved<Task>);

    /// Polls for room for one message. Ready if there may be room, which another sender may take first; otherwise
    /// `waker` is woken when there may be. Never blocks.
    ///
    /// # Errors
    /// [`Refusal::Closed`].
    fn poll_room(&self, place: &mut RoomPlace, waker: &Waker) -> Poll<Result<(), Refusal>>;

    /// Gives up the place of a task that polled for room.
    fn leave_room(&self, place: RoomPlace);

    /// Returns the number of messages in the mailbox.
    fn depth(&self) -> usize;

    /// Notes that a caller waits for an answer, which may be ready already.
    fn waits(&self) {}

    /// Runs the device on the calling thread, which waits, until `poll` returns `true` or the deadline has passed; then
    /// returns `true`. If a thread runs the device, only does what that thread would have been woken for, and returns
    /// `false`: the caller must block elsewhere.
    ///
    /// `poll` looks for what the caller waits for. If it receives a waker, it leaves it there, and the thread sleeps until
    /// the waker is woken or there is something to run. Until the deadline a driven device begins user code only if there
    /// is nothing else to do, and one piece at a time.
    fn wait(&self, deadline: Option<Instant>, poll: &mut dyn FnMut(Option<&Waker>) -> bool)
    -> bool;

    /// Returns `true` if callers run the device, including its user code.
    fn is_driven(&self) -> bool {
        false
    }

    /// Runs user code on a thread for user code, never on the device thread.
    fn execute(&self, job: Job);

    /// Notes that a user's waker will be left with the device.
    fn leaves_waker(&self) {}

    /// Notes that a custom task will be sent. May wait for a caller that steps in, but not for user code.
    fn sends_code(&self) {}

    /// Notes that code of a user awaits the device without driving it: it left a waker, or sent user code. A device
    /// that is part of a model then makes progress without being pumped; any other device ignores the call.
    fn awaited(&self) {}

    /// Notes that the caller looks for an answer, so that work done before the answer happens before what the caller
    /// does next. Only models need it, since they do not observe the answer itself.
    fn looked(&self) {}
}

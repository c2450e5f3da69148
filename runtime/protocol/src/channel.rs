//! What carries messages to a device.
//!
//! Two channels exist: the mailbox of a device that runs by itself, and the direct one of a driven
//! device, whose messages are taken when its owner pumps or somebody waits. Both keep one total
//! order of messages, which all hazards are judged in (I1).

use std::mem::MaybeUninit;
use std::task::{Poll, Waker};
use std::time::Instant;

use millstream_sync::mailbox::RoomPlace;

use crate::message::Task;

/// A message on its way into a slot.
pub struct Build<'a>(&'a mut dyn FnMut(&mut MaybeUninit<Task>));

impl<'a> Build<'a> {
    /// A message that `build` makes in place.
    ///
    /// # Safety
    /// `build` initializes the slot, does not panic, and can be called once.
    #[inline]
    pub unsafe fn new(build: &'a mut dyn FnMut(&mut MaybeUninit<Task>)) -> Self {
        Self(build)
    }

    /// Makes the message; afterwards `slot` is initialized.
    #[inline]
    pub fn into_slot(self, slot: &mut MaybeUninit<Task>) {
        (self.0)(slot);
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
    /// Sends a message. May wait for room; of the runtime's threads, only those that run user code wait ([`runs_user_code`](crate::marks::runs_user_code)).
    ///
    /// # Errors
    /// [`Refusal::Closed`]; [`Refusal::NoWait`] where it would have to wait on any other runtime thread.
    fn send(&self, message: Build<'_>) -> Result<(), Refusal>;

    /// Sends a message if there is room right now.
    ///
    /// # Errors
    /// [`Refusal::Full`] or [`Refusal::Closed`].
    fn try_send(&self, message: Build<'_>) -> Result<(), Refusal>;

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

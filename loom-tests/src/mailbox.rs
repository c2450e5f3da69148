//! Whole messages for the models of the mailbox: devices build and read theirs in the slots.

use std::mem::MaybeUninit;

use millstream_sync::facade::Spinner;
use millstream_sync::mailbox::{Receiver, Refused, Reserved, Sender};

/// Sends whole messages.
pub trait Sends<T> {
    /// Sends without waiting; returns the message's position.
    fn try_send(&self, message: T) -> Result<u64, Refused>;

    /// Sends; may block until there is room.
    fn send(&self, message: T) -> Result<u64, Refused>;
}

impl<T> Sends<T> for Sender<T> {
    fn try_send(&self, message: T) -> Result<u64, Refused> {
        Ok(put(self, self.try_reserve()?, message))
    }

    fn send(&self, message: T) -> Result<u64, Refused> {
        let slot = self.reserve().ok_or(Refused::Closed)?;
        Ok(put(self, slot, message))
    }
}

fn put<T>(tx: &Sender<T>, slot: Reserved<T>, message: T) -> u64 {
    // SAFETY: the slot was reserved by this thread, which initializes and commits it once.
    unsafe {
        slot.as_ptr().write(MaybeUninit::new(message));
        tx.commit(slot, || false)
    }
}

/// Receives whole messages.
pub trait Receives<T> {
    /// Moves the next message out, if there is one.
    fn try_recv(&mut self) -> Option<T>;

    /// Returns the next message; blocks until there is one. `None`: the mailbox is closed and empty.
    fn recv(&mut self, spin: &mut Spinner) -> Option<T>;
}

impl<T> Receives<T> for Receiver<T> {
    fn try_recv(&mut self) -> Option<T> {
        // SAFETY: what is left in the slot is not dropped, so the message is moved once.
        self.try_recv_emptied(|message| unsafe { std::ptr::read(message) })
    }

    fn recv(&mut self, spin: &mut Spinner) -> Option<T> {
        let gate = self.gate().clone();
        gate.wait_until(spin, || match self.try_recv() {
            None => self.is_finished().then_some(None),
            message => Some(message),
        })
    }
}

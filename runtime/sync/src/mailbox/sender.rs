//! The producers' side: `Sender`, which keeps the mailbox open, and `Probe`, which does not.

use super::Refused;
use super::reserved::Reserved;
use super::ring::Ring;
use super::wait_list::Ticket;
use crate::facade::{Arc, SpinPolicy};
use crate::slots::Sink;
use std::task::{Poll, Waker};

/// Sends messages, from any number of threads. When it is dropped, the mailbox closes and the receiver is woken.
pub struct Sender<T> {
    ring: Arc<Ring<T>>,
    spin: SpinPolicy,
}

/// Keeps the ring's memory alive, but not the mailbox open.
pub struct Probe<T> {
    ring: Arc<Ring<T>>,
}

/// A task's place in the wait list of producers for one mailbox.
#[derive(Debug)]
#[must_use = "release a place by `Sender::leave_room`"]
pub struct RoomPlace(Ticket);

impl RoomPlace {
    /// Creates a place, which enters the list at its first poll.
    pub const fn new() -> Self {
        Self(Ticket::NEW)
    }
}

impl Default for RoomPlace {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Sender<T> {
    pub(super) fn new(ring: Arc<Ring<T>>) -> Self {
        Self {
            ring,
            spin: SpinPolicy::default(),
        }
    }

    /// Sets how long a send spins while the mailbox is full, before it parks.
    #[must_use]
    pub fn with_spin(mut self, spin: SpinPolicy) -> Self {
        self.spin = spin;
        self
    }

    /// Claims a slot, if one is free. Later messages are not received before it is committed, and
    /// it cannot be returned: see [`Self::commit`].
    #[inline]
    pub fn try_reserve(&self) -> Result<Reserved<T>, Refused> {
        let pos = self.ring.claim()?;
        Ok(self.ring.reserved(pos))
    }

    /// Claims a slot; may block until one is free. `None`: the mailbox is closed. See [`Self::try_reserve`].
    #[inline]
    pub fn reserve(&self) -> Option<Reserved<T>> {
        let pos = match self.ring.claim() {
            Ok(pos) => pos,
            Err(Refused::Closed) => return None,
            Err(Refused::Full) => self.ring.claim_waiting(self.spin)?,
        };
        Some(self.ring.reserved(pos))
    }

    /// Sends the message that was written to a slot, and returns its position. If the receiver
    /// sleeps, calls `instead`, which returns `true` if it has received in the receiver's place.
    ///
    /// # Safety
    /// The slot was reserved in this mailbox and is initialized.
    #[inline]
    pub unsafe fn commit(&self, slot: Reserved<T>, instead: impl FnOnce() -> bool) -> u64 {
        let position = slot.position;
        // SAFETY: the caller's promise; a slot is not `Clone`, so it is committed once.
        unsafe { self.ring.commit(position, instead) };
        position
    }

    /// Waits for room by polling: ready if a message would be accepted; otherwise registers
    /// `waker`, to be woken when there may be room. The room is not reserved: if another producer
    /// takes it first, poll the same place again, which has kept its position. Never blocks.
    /// [`Self::leave_room`] releases the place.
    pub fn poll_room(&self, place: &mut RoomPlace, waker: &Waker) -> Poll<Result<(), Refused>> {
        self.ring.poll_room(&mut place.0, waker)
    }

    /// Releases a place. Call it when the task has sent or stops waiting.
    pub fn leave_room(&self, place: RoomPlace) {
        self.ring.leave_room(&place.0);
    }

    /// Returns the position after the last accepted message: greater than the position of every
    /// message whose acceptance happened before this call.
    #[inline]
    pub fn tail(&self) -> u64 {
        self.ring.tail()
    }

    /// Returns the number of messages accepted and not yet received. It may be stale.
    pub fn depth(&self) -> usize {
        self.ring.depth()
    }

    /// Returns a probe of this mailbox.
    pub fn probe(&self) -> Probe<T> {
        Probe {
            ring: self.ring.clone(),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.ring.close();
        self.ring.gate.wake();
    }
}

impl<T> Probe<T> {
    /// Returns the position after the last accepted message: greater than the position of every
    /// message whose acceptance happened before this call.
    #[inline]
    pub fn tail(&self) -> u64 {
        self.ring.tail()
    }

    /// Returns `true` if the mailbox is closed.
    pub fn is_closed(&self) -> bool {
        self.ring.is_closed()
    }

    /// Wakes the receiver if it sleeps.
    #[inline]
    pub fn wake(&self) {
        self.ring.gate.wake();
    }

    /// Wakes the receiver if it sleeps and `instead` returns `false`; see [`Gate::wake_unless`].
    ///
    /// [`Gate::wake_unless`]: crate::gate::Gate::wake_unless
    #[inline]
    pub fn wake_unless(&self, instead: impl FnOnce() -> bool) {
        self.ring.gate.wake_unless(instead);
    }
}

impl<T> Clone for Probe<T> {
    fn clone(&self) -> Self {
        Self {
            ring: self.ring.clone(),
        }
    }
}

impl<T: Send + 'static> Sink for Probe<T> {
    #[inline]
    fn stamp(&self) -> u64 {
        self.tail()
    }

    #[inline]
    fn wake(&self) {
        Probe::wake(self);
    }
}

//! The producers' side: `Sender`, which keeps the mailbox open, and `Probe`, which does not.

use super::crowd::Ticket;
use super::reserved::Reserved;
use super::ring::Ring;
use super::{Closed, ClosedMarker, Refused, TrySendError};
use crate::facade::atomic::Ordering;
use crate::facade::{Arc, SpinPolicy};
use crate::slots::Sink;
use std::fmt;
use std::mem::MaybeUninit;
use std::task::{Poll, Waker};

/// Sends messages. When the last sender goes, the mailbox closes and the receiver is woken.
pub struct Sender<T> {
    ring: Arc<Ring<T>>,
    spin: SpinPolicy,
}

/// Keeps the ring's memory, but not the mailbox open.
pub struct Probe<T> {
    ring: Arc<Ring<T>>,
}

/// A task's place among the producers that wait for room in one mailbox.
#[derive(Debug)]
#[must_use = "a place is given up by `Sender::leave_room`"]
pub struct RoomPlace(Ticket);

impl RoomPlace {
    /// A place that is taken by the first poll.
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
    /// The sender that `Ring::new` has counted.
    pub(super) fn first(ring: Arc<Ring<T>>) -> Self {
        Self {
            ring,
            spin: SpinPolicy::default(),
        }
    }

    /// Sets how long a full mailbox is waited for by spinning; clones inherit it.
    #[must_use]
    pub fn with_spin(mut self, spin: SpinPolicy) -> Self {
        self.spin = spin;
        self
    }

    /// Sends without waiting; the answer is the message's position.
    #[inline]
    pub fn try_send(&self, message: T) -> Result<u64, TrySendError<T>> {
        match self.ring.claim() {
            Ok(pos) => Ok(self.put(pos, message)),
            Err(why) => Err(TrySendError::new(why, message)),
        }
    }

    /// Sends; may block until there is room.
    #[inline]
    pub fn send(&self, message: T) -> Result<u64, Closed<T>> {
        match self.claim_waiting() {
            Ok(pos) => Ok(self.put(pos, message)),
            Err(Closed(())) => Err(Closed(message)),
        }
    }

    /// Sends without waiting a message that `write` builds in its slot; where the receiver sleeps, `instead` may receive in its
    /// stead, and says so. `write` runs only when the message is accepted; if it panics the process aborts, since the slot cannot be
    /// taken back.
    ///
    /// # Safety
    /// `write` initializes the slot.
    #[inline]
    pub unsafe fn try_send_unless(
        &self,
        write: impl FnOnce(&mut MaybeUninit<T>),
        instead: impl FnOnce() -> bool,
    ) -> Result<u64, Refused> {
        let pos = self.ring.claim()?;
        // SAFETY: just claimed; the caller promises that `write` initializes.
        unsafe { self.ring.fill_unless(pos, write, instead) };
        Ok(pos)
    }

    /// Reserves a slot, if there is one now. Later messages are not received before it is committed, and it cannot be given back: see
    /// [`Self::commit`].
    #[inline]
    pub fn try_reserve(&self) -> Result<Reserved<T>, Refused> {
        let pos = self.ring.claim()?;
        Ok(self.ring.reserved(pos))
    }

    /// As [`Self::try_reserve`], but may block until there is a slot.
    #[inline]
    pub fn reserve(&self) -> Result<Reserved<T>, ClosedMarker> {
        let pos = self.claim_waiting()?;
        Ok(self.ring.reserved(pos))
    }

    /// Sends the message that was written to a slot, and answers with its position. Where the receiver sleeps, `instead` may receive
    /// in its stead, and says so.
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

    #[inline]
    fn claim_waiting(&self) -> Result<u64, Closed> {
        match self.ring.claim() {
            Ok(pos) => Ok(pos),
            Err(Refused::Closed) => Err(Closed(())),
            Err(Refused::Full) => self.ring.claim_waiting(self.spin),
        }
    }

    #[inline]
    fn put(&self, pos: u64, message: T) -> u64 {
        // SAFETY: `pos` was just claimed, and the slot is written.
        unsafe { self.ring.fill(pos, |slot| _ = slot.write(message)) };
        pos
    }

    /// Looks for room, for a task that waits by polling: ready when a message would be accepted, or `waker` will be
    /// woken when that may be so. Room that is found is not kept: other producers may take it first, and then the same
    /// place is polled again, which has not lost its turn. Never blocks. [`Self::leave_room`] gives the place up.
    pub fn poll_room(&self, place: &mut RoomPlace, waker: &Waker) -> Poll<Result<(), Closed>> {
        self.ring.poll_room(&mut place.0, waker)
    }

    /// Gives a place up. To be called when its task has sent, or waits no longer.
    pub fn leave_room(&self, place: RoomPlace) {
        self.ring.leave_room(&place.0);
    }

    /// Messages accepted and not yet received, as of lately.
    pub fn depth(&self) -> usize {
        self.ring.depth()
    }

    /// How many messages fit.
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// Whether nothing is accepted any more.
    pub fn is_closed(&self) -> bool {
        self.ring.is_closed()
    }

    /// A probe of this mailbox.
    pub fn probe(&self) -> Probe<T> {
        Probe {
            ring: self.ring.clone(),
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        // Relaxed: a clone is made from a sender, so the count cannot reach zero meanwhile.
        self.ring.senders.fetch_add(1, Ordering::Relaxed);
        Self {
            ring: self.ring.clone(),
            spin: self.spin,
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // AcqRel: whoever closes comes after what the other senders did.
        if self.ring.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.ring.close();
            self.ring.gate.wake();
        }
    }
}

impl<T> Probe<T> {
    /// The position after the last accepted message: greater than the position of every message whose
    /// acceptance happened before this call.
    #[inline]
    pub fn tail(&self) -> u64 {
        self.ring.tail()
    }

    /// Whether nothing is accepted any more.
    pub fn is_closed(&self) -> bool {
        self.ring.is_closed()
    }

    /// Wakes the receiver if it sleeps.
    #[inline]
    pub fn wake(&self) {
        self.ring.gate.wake();
    }

    /// Wakes the receiver if it sleeps and `instead` does not do what it would be woken for.
    #[inline]
    pub fn wake_unless(&self, instead: impl FnOnce() -> bool) {
        self.ring.gate.wake_unless(instead);
    }

    /// A sender, while there is at least one.
    pub fn upgrade(&self) -> Option<Sender<T>> {
        let count = &self.ring.senders;
        // Relaxed: as in `clone`; zero stays zero.
        let mut now = count.load(Ordering::Relaxed);
        while now != 0 {
            match count.compare_exchange(now, now + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(Sender::first(self.ring.clone())),
                Err(seen) => now = seen,
            }
        }
        None
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

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Sender");
        out.field("depth", &self.depth())
            .field("capacity", &self.capacity());
        out.finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Probe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe")
            .field("tail", &self.tail())
            .finish_non_exhaustive()
    }
}

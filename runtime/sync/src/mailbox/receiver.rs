//! The consumer's side. A message may be used in place, in its slot, and is then dropped there.

use super::ring::{Cursor, Ring};
use crate::facade::{Arc, relax, thread};
use crate::gate::Gate;

/// Pauses between polls of a slot that is claimed and not yet published, before yielding.
const PAUSES_BEFORE_YIELD: u32 = 64;

/// Receives messages, in the order of their positions.
pub struct Receiver<T> {
    ring: Arc<Ring<T>>,
    cursor: Cursor,
}

impl<T> Receiver<T> {
    pub(super) fn new(ring: Arc<Ring<T>>) -> Self {
        Self {
            ring,
            cursor: Cursor::START,
        }
    }

    /// Registers the calling thread as the one that sleeps at the gate.
    pub fn attach(&self) {
        self.ring.gate.attach();
    }

    /// Passes the next message to `f` in place, then drops it and frees its slot, even if `f`
    /// unwinds.
    #[inline]
    pub fn try_recv_with<R>(&mut self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.ring.take_with(&mut self.cursor, f)
    }

    /// Passes the next message to `f` without consuming it.
    #[inline]
    pub fn peek_with<R>(&mut self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.ring.peek_with(&mut self.cursor, f)
    }

    /// As [`Self::try_recv_with`], for an `f` that moves everything out of the message that must be
    /// dropped: the remainder is leaked. Saves the drop of an emptied message.
    #[inline]
    pub fn try_recv_emptied<R>(&mut self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.ring.take_emptied(&mut self.cursor, f)
    }

    /// Returns `true` if a message is waiting.
    #[inline]
    pub fn has_next(&self) -> bool {
        self.ring.is_published(self.cursor.head)
    }

    /// Refuses further messages; accepted ones can still be received.
    pub fn close(&mut self) {
        self.ring.close();
        self.ring.wake_all_senders();
    }

    /// Refuses further messages and passes every accepted one to `f`, after which it is dropped.
    /// Waits for producers that have claimed a slot and not yet published it.
    pub fn finish_with(&mut self, mut f: impl FnMut(&mut T)) {
        self.close();
        let end = self.ring.tail();
        let mut pauses = 0;
        while self.cursor.head != end {
            if self.try_recv_with(&mut f).is_some() {
                pauses = 0;
            } else if pauses < PAUSES_BEFORE_YIELD {
                pauses += 1;
                relax();
            } else {
                thread::yield_now();
            }
        }
    }

    /// Returns `true` if the mailbox is closed and every accepted message has been received.
    #[inline]
    pub fn is_finished(&self) -> bool {
        self.ring.is_finished(&self.cursor)
    }

    /// Wakes a producer that waits for room if at least half of the ring is free; it wakes the
    /// next. Call it once per burst, to save time only: receiving does the same now and then.
    #[inline]
    pub fn wake_senders(&mut self) {
        self.ring.wake_if_half_empty(&mut self.cursor);
    }

    /// Returns the gate at which the receiver sleeps.
    pub fn gate(&self) -> &std::sync::Arc<Gate> {
        &self.ring.gate
    }
}

impl<T> Drop for Receiver<T> {
    /// Closes the mailbox and drops every accepted message. Waits for producers that have claimed a
    /// slot and not yet published it.
    fn drop(&mut self) {
        self.finish_with(|_| ());
    }
}

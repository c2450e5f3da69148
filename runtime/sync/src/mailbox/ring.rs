//! The ring: claiming, publishing, receiving, closing. The protocol is at the head of the
//! [mailbox](super). `Cursor` belongs to the one receiver.

use super::Refused;
use super::reserved::Reserved;
use super::wait_list::{Ticket, WaitList};
use crate::facade::atomic::{AtomicU64, Ordering, fence};
use crate::facade::cell::UnsafeCell;
use crate::facade::{Padded, SpinPolicy, Spinner, Statistic, thread};
use crate::gate::Gate;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// In `tail`: the mailbox is closed. The other bits count accepted messages.
const CLOSED: u64 = 1 << 63;

/// The turn comes first, in one cache line with the first bytes of the message, so that a short
/// message moves between cores as one line.
#[repr(C, align(64))]
struct Slot<T> {
    turn: AtomicU64,
    value: UnsafeCell<MaybeUninit<T>>,
}

pub(super) struct Ring<T> {
    /// The number of messages accepted so far, and CLOSED.
    tail: Padded<AtomicU64>,
    /// The number of messages received so far, for `depth` only.
    received: Padded<Statistic>,
    wait_list: Padded<WaitList>,
    pub(super) gate: Arc<Gate>,
    mask: u64,
    slots: Box<[Slot<T>]>,
}

// SAFETY: a value moves from one producer to the one receiver, which `T: Send` allows; the turn of
// a slot says which thread may access it (invariant 1).
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}

/// The receiver's state.
pub(super) struct Cursor {
    /// The number of messages received.
    pub(super) head: u64,
    /// The number of messages received since the receiver last looked for waiting producers.
    unreported: u64,
}

impl Cursor {
    pub(super) const START: Self = Self {
        head: 0,
        unreported: 0,
    };
}

impl<T> Ring<T> {
    pub(super) fn new(capacity: usize, gate: Arc<Gate>) -> Self {
        let capacity = capacity.max(2).next_power_of_two() as u64;
        let slot = |pos| Slot {
            turn: AtomicU64::new(pos),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        };
        Self {
            tail: Padded(AtomicU64::new(0)),
            received: Padded(Statistic::new(0)),
            wait_list: Padded(WaitList::new()),
            gate,
            mask: capacity - 1,
            slots: (0..capacity).map(slot).collect(),
        }
    }

    #[inline(always)]
    fn slot(&self, pos: u64) -> &Slot<T> {
        let index = (pos & self.mask) as usize;
        debug_assert!(
            index < self.slots.len(),
            "the mask is one less than the slots"
        );
        // SAFETY: `new` made `mask + 1` slots. A checked index costs each message 12 instructions.
        unsafe { self.slots.get_unchecked(index) }
    }

    /// Claims the next position, which accepts its message; the caller must fill the slot.
    #[inline]
    pub(super) fn claim(&self) -> Result<u64, Refused> {
        // Relaxed throughout: the tail orders nothing, the slot's turn does.
        let mut tail = self.tail.load(Ordering::Relaxed);
        loop {
            if tail & CLOSED != 0 {
                return Err(Refused::Closed);
            }
            // Acquire: pairs with the Release in `free`; the slot's old value has been dropped.
            let turn = self.slot(tail).turn.load(Ordering::Acquire);
            let lag = turn.wrapping_sub(tail).cast_signed();
            if lag == 0 {
                let (relaxed, next) = (Ordering::Relaxed, tail + 1);
                match self
                    .tail
                    .compare_exchange_weak(tail, next, relaxed, relaxed)
                {
                    Ok(_) => return Ok(tail),
                    Err(now) => tail = now,
                }
            } else {
                let now = self.tail.load(Ordering::Relaxed);
                if lag < 0 && now == tail {
                    return Err(Refused::Full);
                }
                tail = now;
            }
        }
    }

    /// Claims the next position; waits for room: spins, then parks. `None`: the mailbox is closed.
    #[cold]
    pub(super) fn claim_waiting(&self, spin: SpinPolicy) -> Option<u64> {
        let mut attempt = || match self.claim() {
            Err(Refused::Full) => None,
            outcome => Some(outcome.ok()),
        };
        if let Some(outcome) = Spinner::of_thread(spin, |spin| spin.spin(&mut attempt)) {
            return outcome;
        }
        let mut ticket = Ticket::NEW;
        loop {
            self.wait_list.enter(&mut ticket);
            // SeqCst: pairs with the fence in `wake_if_waiting`. Here: enter the list, then claim;
            // there: free, then read the list.
            fence(Ordering::SeqCst);
            if let Some(outcome) = attempt() {
                self.wait_list.leave(&ticket);
                self.pass_baton();
                return outcome;
            }
            thread::park();
        }
    }

    /// Returns `true` if a message would be accepted right now.
    fn has_room(&self) -> Result<bool, Refused> {
        // Relaxed: the tail orders nothing. The result is a hint: the claim itself acquires.
        let tail = self.tail.load(Ordering::Relaxed);
        if tail & CLOSED != 0 {
            return Err(Refused::Closed);
        }
        // A turn behind the tail: the slot is not free. A turn ahead of it: the tail read is stale.
        let turn = self.slot(tail).turn.load(Ordering::Relaxed);
        Ok(turn.wrapping_sub(tail).cast_signed() >= 0)
    }

    /// Ready if there is room; otherwise registers `waker` to be woken when there may be. The
    /// ticket keeps its place.
    pub(super) fn poll_room(
        &self,
        ticket: &mut Ticket,
        waker: &Waker,
    ) -> Poll<Result<(), Refused>> {
        self.wait_list.enter_task(ticket, waker);
        // SeqCst: pairs with the fence in `wake_if_waiting`, as in `claim_waiting`.
        fence(Ordering::SeqCst);
        match self.has_room() {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(closed) => Poll::Ready(Err(closed)),
        }
    }

    /// Removes the ticket's task from the wait list.
    pub(super) fn leave_room(&self, ticket: &Ticket) {
        self.wait_list.leave(ticket);
    }

    /// Wakes the next waiting producer if there is room; for a producer that waited and has
    /// claimed. This saves time only: its message is yet to be received, and the receiver looks
    /// again afterwards.
    fn pass_baton(&self) {
        if self.wait_list.is_waiting() {
            // Relaxed: a hint, as above.
            let tail = self.tail.load(Ordering::Relaxed);
            let has_room = self.slot(tail).turn.load(Ordering::Relaxed) == tail;
            if has_room {
                self.wait_list.wake_one();
            }
        }
    }

    /// Returns the slot of a claimed position, to be written and committed.
    #[inline]
    pub(super) fn reserved(&self, pos: u64) -> Reserved<T> {
        let value = self.slot(pos).value.with_mut(|value| value);
        // SAFETY: a slot of the ring, so not null.
        Reserved::new(unsafe { NonNull::new_unchecked(value) }, pos)
    }

    /// Publishes the message of a claimed position, which has been written, and wakes the receiver
    /// unless `instead` returns `true`.
    ///
    /// # Safety
    /// `pos` comes from a claim and is committed once; its slot is initialized.
    #[inline]
    pub(super) unsafe fn commit(&self, pos: u64, instead: impl FnOnce() -> bool) {
        let slot = self.slot(pos);
        // For loom: a write access to the message, which may have been written through a plain pointer.
        slot.value.with_mut(|_| ());
        // Release: pairs with the receiver's Acquire in `is_published` and `next_published`.
        slot.turn.store(pos + 1, Ordering::Release);
        self.gate.wake_unless(instead);
    }

    #[inline]
    pub(super) fn is_published(&self, pos: u64) -> bool {
        // Acquire: pairs with the producer's Release in `commit`.
        self.slot(pos).turn.load(Ordering::Acquire) == pos + 1
    }

    /// Returns the slot of the next message, if there is one. Otherwise wakes a producer that waits
    /// for room.
    #[inline]
    fn next_published(&self, cursor: &mut Cursor) -> Option<&Slot<T>> {
        let slot = self.slot(cursor.head);
        // Acquire: pairs with the producer's Release in `commit`.
        if slot.turn.load(Ordering::Acquire) == cursor.head + 1 {
            return Some(slot);
        }
        if cursor.unreported != 0 {
            self.wake_if_waiting(cursor);
        }
        None
    }

    /// Passes the next message to `f` in place, then drops it and frees its slot, even if `f` unwinds.
    #[inline]
    pub(super) fn take_with<R>(
        &self,
        cursor: &mut Cursor,
        f: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let slot = self.next_published(cursor)?;
        let taken = DropAndFree(FreeOnDrop {
            ring: self,
            slot,
            cursor,
        });
        // SAFETY: published and not yet freed, so the value is initialized and the receiver's alone.
        let out = slot
            .value
            .with_mut(|value| f(unsafe { (*value).assume_init_mut() }));
        drop(taken);
        Some(out)
    }

    /// Passes the next message to `f` without consuming it.
    #[inline]
    pub(super) fn peek_with<R>(
        &self,
        cursor: &mut Cursor,
        f: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let slot = self.next_published(cursor)?;
        // SAFETY: published and not yet freed, so the value is initialized and the receiver's alone.
        let look = |value: *mut MaybeUninit<T>| f(unsafe { (*value).assume_init_mut() });
        Some(slot.value.with_mut(look))
    }

    /// Passes the next message to `f` in place and frees its slot, even if `f` unwinds. What `f`
    /// leaves in the message is not dropped.
    #[inline]
    pub(super) fn take_emptied<R>(
        &self,
        cursor: &mut Cursor,
        f: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let slot = self.next_published(cursor)?;
        let freed = FreeOnDrop {
            ring: self,
            slot,
            cursor,
        };
        let out = slot.value.with_mut(|value| {
            // SAFETY: published and not yet freed, so the value is initialized and the receiver's
            // alone. It is not accessed after `freed` is dropped; not dropping it leaks at most.
            f(unsafe { (*value).assume_init_mut() })
        });
        drop(freed);
        Some(out)
    }

    /// Returns `slot`, the one at the head, to the producers; its value has been moved out or dropped.
    #[inline]
    fn free(&self, slot: &Slot<T>, cursor: &mut Cursor) {
        // Release: pairs with the producers' Acquire in `claim`.
        let turn = cursor.head + self.mask + 1;
        slot.turn.store(turn, Ordering::Release);
        cursor.head += 1;
        cursor.unreported += 1;
        self.received.set(cursor.head);
        if cursor.unreported > self.mask / 2 {
            self.wake_if_waiting(cursor);
        }
    }

    /// Wakes one producer if any waits for the room that was made.
    pub(super) fn wake_if_waiting(&self, cursor: &mut Cursor) {
        cursor.unreported = 0;
        // SeqCst: pairs with the fences in `claim_waiting` and `poll_room`.
        fence(Ordering::SeqCst);
        if self.wait_list.is_waiting() {
            self.wait_list.wake_one();
        }
    }

    /// Wakes one waiting producer if at least half of the ring is free.
    pub(super) fn wake_if_half_empty(&self, cursor: &mut Cursor) {
        if cursor.unreported != 0 && self.tail() - cursor.head <= self.slots.len() as u64 / 2 {
            self.wake_if_waiting(cursor);
        }
    }

    /// Refuses further messages.
    pub(super) fn close(&self) {
        // AcqRel: Release for threads that read CLOSED; Acquire so that the closer knows the
        // accepted messages.
        self.tail.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Wakes all producers that wait for room: there will be none. They enter the list under its
    /// lock and read the tail afterwards, so a producer that is not in the list yet reads CLOSED.
    pub(super) fn wake_all_senders(&self) {
        self.wait_list.wake_all();
    }

    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        // Acquire: pairs with `close`.
        self.tail.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Returns the number of messages accepted so far. By coherence alone it covers every
    /// acceptance that happened before.
    #[inline]
    pub(super) fn tail(&self) -> u64 {
        // Acquire: a position read here is not older than the caller's later reads.
        self.tail.load(Ordering::Acquire) & !CLOSED
    }

    /// Returns `true` if the mailbox is closed and every accepted message has been received.
    #[inline]
    pub(super) fn is_finished(&self, cursor: &Cursor) -> bool {
        // Acquire: pairs with `close`.
        self.tail.load(Ordering::Acquire) == cursor.head | CLOSED
    }

    pub(super) fn depth(&self) -> usize {
        usize::try_from(self.tail().saturating_sub(self.received.get())).unwrap_or(usize::MAX)
    }
}

/// Frees the slot at the cursor when dropped.
struct FreeOnDrop<'a, T> {
    ring: &'a Ring<T>,
    slot: &'a Slot<T>,
    cursor: &'a mut Cursor,
}

impl<T> Drop for FreeOnDrop<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.ring.free(self.slot, self.cursor);
    }
}

/// Drops the message in place when dropped itself, then frees its slot, even if the message's
/// destructor unwinds.
struct DropAndFree<'a, T>(FreeOnDrop<'a, T>);

impl<T> Drop for DropAndFree<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let value = &self.0.slot.value;
        // SAFETY: the value is initialized and the receiver's alone until the slot is freed.
        value.with_mut(|value| unsafe { (*value).assume_init_drop() });
    }
}

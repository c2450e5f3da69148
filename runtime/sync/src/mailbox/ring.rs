//! The ring: claiming, publishing, taking, closing. What may be touched by whom:
//! a slot's value belongs to the producer from its claim to its publication, then to the receiver until
//! it frees the slot. `Cursor` belongs to the one receiver.

use super::crowd::{Crowd, Ticket};
use super::reserved::Reserved;
use super::{Closed, Refused};
use crate::facade::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use crate::facade::cell::UnsafeCell;
use crate::facade::{Figure, Padded, SpinPolicy, Spinner, thread};
use crate::gate::Gate;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// In `tail`: nothing more is accepted. The other bits count accepted messages.
const CLOSED: u64 = 1 << 63;

/// The turn lies in front, in one cache line with the first bytes of the message: what a short message
/// needs travels between the cores as one line.
#[repr(C, align(64))]
struct Slot<T> {
    turn: AtomicU64,
    value: UnsafeCell<MaybeUninit<T>>,
}

pub(super) struct Ring<T> {
    /// Messages accepted so far, and CLOSED.
    tail: Padded<AtomicU64>,
    /// Messages received so far, for `depth` only.
    taken: Padded<Figure>,
    pub(super) senders: Padded<AtomicUsize>,
    crowd: Padded<Crowd>,
    pub(super) gate: Arc<Gate>,
    mask: u64,
    slots: Box<[Slot<T>]>,
}

// SAFETY: a value moves from one producer to the one receiver, which `T: Send` allows; the turn of a
// slot says who may touch it (invariant 1).
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}

/// The receiver's side of the ring.
pub(super) struct Cursor {
    /// Messages received.
    pub(super) head: u64,
    /// Messages received since the receiver last looked for waiting producers.
    unreported: u64,
}

impl Cursor {
    pub(super) const START: Self = Self {
        head: 0,
        unreported: 0,
    };
}

/// A message being built or consumed may not unwind past its slot.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
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
            taken: Padded(Figure::new(0)),
            senders: Padded(AtomicUsize::new(1)),
            crowd: Padded(Crowd::new()),
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
        // SAFETY: there are `mask + 1` slots, as `new` has made them. A checked index costs each message 12 instructions.
        unsafe { self.slots.get_unchecked(index) }
    }

    pub(super) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Accepts a message at the returned position; the caller must fill it.
    #[inline]
    pub(super) fn claim(&self) -> Result<u64, Refused> {
        // Relaxed throughout: the tail orders nothing, the slot's turn does.
        let mut tail = self.tail.load(Ordering::Relaxed);
        loop {
            if tail & CLOSED != 0 {
                return Err(Refused::Closed);
            }
            // Acquire: pairs with the receiver's Release in `free`; the slot's old value is gone.
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

    /// Claims, waiting for room: spins, then parks.
    #[cold]
    pub(super) fn claim_waiting(&self, spin: SpinPolicy) -> Result<u64, Closed> {
        let mut attempt = || match self.claim() {
            Ok(pos) => Some(Ok(pos)),
            Err(Refused::Closed) => Some(Err(Closed(()))),
            Err(Refused::Full) => None,
        };
        if let Some(outcome) = Spinner::of_thread(spin, |spin| spin.spin(&mut attempt)) {
            return outcome;
        }
        let mut ticket = Ticket::NEW;
        loop {
            self.crowd.enter(&mut ticket);
            // SeqCst: pairs with the fence in `look_for_waiting`; register-then-look here,
            // free-then-look there.
            fence(Ordering::SeqCst);
            if let Some(outcome) = attempt() {
                self.crowd.leave(&ticket);
                self.pass_baton();
                return outcome;
            }
            thread::park();
        }
    }

    /// Whether a message would be accepted right now.
    fn has_room(&self) -> Result<bool, Closed> {
        // Relaxed: the tail orders nothing. What is found here is a hint: the claim itself acquires.
        let tail = self.tail.load(Ordering::Relaxed);
        if tail & CLOSED != 0 {
            return Err(Closed(()));
        }
        // A turn behind the tail is a slot that was not freed; one ahead of it means that the tail is an old one.
        let turn = self.slot(tail).turn.load(Ordering::Relaxed);
        Ok(turn.wrapping_sub(tail).cast_signed() >= 0)
    }

    /// Whether there is room; or `waker` will be woken when there may be, and the ticket keeps its place.
    pub(super) fn poll_room(&self, ticket: &mut Ticket, waker: &Waker) -> Poll<Result<(), Closed>> {
        self.crowd.enter_task(ticket, waker);
        // SeqCst: pairs with the fence in `look_for_waiting`, as in `claim_waiting`.
        fence(Ordering::SeqCst);
        match self.has_room() {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(closed) => Poll::Ready(Err(closed)),
        }
    }

    /// The task of this ticket waits no longer.
    pub(super) fn leave_room(&self, ticket: &Ticket) {
        self.crowd.leave(ticket);
    }

    /// A producer that waited and got its turn wakes the next while there is room. This saves time and
    /// nothing else: its message is yet to be received, and the receiver looks again afterwards.
    fn pass_baton(&self) {
        if self.crowd.is_waiting() {
            // Relaxed: a hint, see above.
            let tail = self.tail.load(Ordering::Relaxed);
            let has_room = self.slot(tail).turn.load(Ordering::Relaxed) == tail;
            if has_room {
                self.crowd.wake_one();
            }
        }
    }

    /// Builds the message of a claimed position, publishes it and wakes the receiver.
    ///
    /// # Safety
    /// `pos` comes from a claim and is filled once; `write` initializes the slot.
    #[inline]
    pub(super) unsafe fn fill(&self, pos: u64, write: impl FnOnce(&mut MaybeUninit<T>)) {
        // SAFETY: the caller's promises.
        unsafe { self.fill_unless(pos, write, || false) }
    }

    /// As [`Self::fill`], but where the receiver sleeps `instead` may receive in its stead, and says so.
    ///
    /// # Safety
    /// As [`Self::fill`].
    #[inline]
    pub(super) unsafe fn fill_unless(
        &self,
        pos: u64,
        write: impl FnOnce(&mut MaybeUninit<T>),
        instead: impl FnOnce() -> bool,
    ) {
        let slot = self.slot(pos);
        let guard = AbortOnUnwind;
        // SAFETY: claimed and not yet published, so the slot is this producer's alone.
        slot.value.with_mut(|value| write(unsafe { &mut *value }));
        std::mem::forget(guard);
        // SAFETY: the caller's promises; the slot was just written.
        unsafe { self.commit(pos, instead) };
    }

    /// The slot of a claimed position, to be written to and committed.
    #[inline]
    pub(super) fn reserved(&self, pos: u64) -> Reserved<T> {
        let value = self.slot(pos).value.with_mut(|value| value);
        // SAFETY: it lies in the ring.
        Reserved::new(unsafe { NonNull::new_unchecked(value) }, pos)
    }

    /// Publishes the message of a claimed position, which is written, and wakes the receiver unless `instead` receives in its stead.
    ///
    /// # Safety
    /// `pos` comes from a claim and is committed once; its slot is initialized.
    #[inline]
    pub(super) unsafe fn commit(&self, pos: u64, instead: impl FnOnce() -> bool) {
        let slot = self.slot(pos);
        // In a model this is where the message is written.
        slot.value.with_mut(|_| ());
        // Release: pairs with the receiver's Acquire in `is_published`.
        slot.turn.store(pos + 1, Ordering::Release);
        self.gate.wake_unless(instead);
    }

    #[inline]
    pub(super) fn is_published(&self, pos: u64) -> bool {
        // Acquire: pairs with the producer's Release in `fill`.
        self.slot(pos).turn.load(Ordering::Acquire) == pos + 1
    }

    /// The slot of the next message, if there is one. Where there is none, producers that wait for room are
    /// told of what was freed.
    #[inline]
    fn arrived(&self, cursor: &mut Cursor) -> Option<&Slot<T>> {
        let slot = self.slot(cursor.head);
        // Acquire: pairs with the producer's Release in `fill`.
        if slot.turn.load(Ordering::Acquire) == cursor.head + 1 {
            return Some(slot);
        }
        if cursor.unreported != 0 {
            self.look_for_waiting(cursor);
        }
        None
    }

    /// Lets `f` consume the next message in place, then drops it and frees its slot, also when `f` unwinds.
    #[inline]
    pub(super) fn take_with<R>(
        &self,
        cursor: &mut Cursor,
        f: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let slot = self.arrived(cursor)?;
        let taken = Taken(Freed {
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

    /// Lets `f` look at the next message, which stays.
    #[inline]
    pub(super) fn peek_with<R>(
        &self,
        cursor: &mut Cursor,
        f: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let slot = self.arrived(cursor)?;
        // SAFETY: published and not yet freed, so the value is initialized and the receiver's alone.
        let look = |value: *mut MaybeUninit<T>| f(unsafe { (*value).assume_init_mut() });
        Some(slot.value.with_mut(look))
    }

    /// Lets `f` empty the next message in place and frees its slot, also when `f` unwinds. What `f` leaves
    /// in the message is not dropped.
    #[inline]
    pub(super) fn take_emptied<R>(
        &self,
        cursor: &mut Cursor,
        f: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let slot = self.arrived(cursor)?;
        let freed = Freed {
            ring: self,
            slot,
            cursor,
        };
        let out = slot.value.with_mut(|value| {
            // SAFETY: published and not yet freed, so the value is initialized and the receiver's alone. It
            // is not touched again after `freed` goes; not dropping it leaks at most.
            f(unsafe { (*value).assume_init_mut() })
        });
        drop(freed);
        Some(out)
    }

    /// Moves the next message out.
    #[inline]
    pub(super) fn take(&self, cursor: &mut Cursor) -> Option<T> {
        let slot = self.arrived(cursor)?;
        // SAFETY: published and not yet freed; the slot is freed right after, so the value is read once.
        let value = slot
            .value
            .with_mut(|value| unsafe { (*value).assume_init_read() });
        self.free(slot, cursor);
        Some(value)
    }

    /// Gives `slot`, the one at the head, back to the producers; its value is gone.
    #[inline]
    fn free(&self, slot: &Slot<T>, cursor: &mut Cursor) {
        // Release: pairs with the producers' Acquire in `claim`.
        let turn = cursor.head + self.mask + 1;
        slot.turn.store(turn, Ordering::Release);
        cursor.head += 1;
        cursor.unreported += 1;
        self.taken.set(cursor.head);
        if cursor.unreported > self.mask / 2 {
            self.look_for_waiting(cursor);
        }
    }

    /// Wakes one producer if any waits for the room that was made.
    pub(super) fn look_for_waiting(&self, cursor: &mut Cursor) {
        cursor.unreported = 0;
        // SeqCst: pairs with the fence in `claim_waiting`.
        fence(Ordering::SeqCst);
        if self.crowd.is_waiting() {
            self.crowd.wake_one();
        }
    }

    /// Looks for waiting producers once half of the ring is free.
    pub(super) fn look_if_half_empty(&self, cursor: &mut Cursor) {
        if cursor.unreported != 0 && self.tail() - cursor.head <= self.slots.len() as u64 / 2 {
            self.look_for_waiting(cursor);
        }
    }

    /// Refuses further messages.
    pub(super) fn close(&self) {
        // AcqRel: Release for whoever sees CLOSED; Acquire so that the closer knows what was accepted.
        self.tail.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Tells the producers that wait for room that there will be none. They register under the crowd's
    /// lock and look at the tail afterwards: whoever is not found there sees CLOSED.
    pub(super) fn wake_all_senders(&self) {
        self.crowd.wake_all();
    }

    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        // Acquire: pairs with `close`.
        self.tail.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Messages accepted so far. Coherence alone makes it cover every acceptance that happened before.
    #[inline]
    pub(super) fn tail(&self) -> u64 {
        // Acquire: a position read here is not older than what the caller reads afterwards.
        self.tail.load(Ordering::Acquire) & !CLOSED
    }

    /// Closed, and everything accepted has been received.
    #[inline]
    pub(super) fn is_finished(&self, cursor: &Cursor) -> bool {
        // Acquire: pairs with `close`.
        self.tail.load(Ordering::Acquire) == cursor.head | CLOSED
    }

    pub(super) fn depth(&self) -> usize {
        usize::try_from(self.tail().saturating_sub(self.taken.get())).unwrap_or(usize::MAX)
    }
}

/// Frees the slot at the cursor when dropped.
struct Freed<'a, T> {
    ring: &'a Ring<T>,
    slot: &'a Slot<T>,
    cursor: &'a mut Cursor,
}

impl<T> Drop for Freed<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.ring.free(self.slot, self.cursor);
    }
}

/// A message in the receiver's hands: dropped in place when this goes, and then its slot is freed, also
/// when dropping the message unwinds.
struct Taken<'a, T>(Freed<'a, T>);

impl<T> Drop for Taken<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let value = &self.0.slot.value;
        // SAFETY: the value is initialized and the receiver's alone until the slot is freed.
        value.with_mut(|value| unsafe { (*value).assume_init_drop() });
    }
}

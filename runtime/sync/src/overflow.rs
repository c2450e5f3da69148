//! A queue from one thread to another whose sender never blocks and which loses nothing: a ring,
//! and an overflow list behind it.
//!
//! The ring is a [`mailbox`], large enough for the usual number of entries in flight. Further
//! entries go to the overflow, a list under a lock, until the receiver has taken the whole list.
//!
//! # Order (I1)
//! While the overflow is not empty, every new entry goes there. The receiver takes the overflow
//! only after it has seen, under the overflow's lock, that the ring is empty. So ring entries come
//! before overflow entries, and taken overflow entries before later ring entries.
//!
//! ```text
//!   sender                                      receiver
//!   any?                      (Relaxed)         an entry that was taken, else from the ring
//!     no:  into the ring, if it has room        ring empty, any?         (Acquire)
//!     yes: lock, append                           lock, ring still empty?
//!          any = true         (Release)             take the list, any = false   (Release)
//!          unlock, wake
//! ```
//! Checked by the models in `loom-tests/tests/models/overflow.rs`.

use std::collections::VecDeque;
use std::mem::MaybeUninit;

use crate::facade::atomic::{AtomicBool, Ordering};
use crate::facade::{Arc, Mutex, Spinner, lock};
use crate::gate::Gate;
use crate::mailbox::{self, Receiver, Refused, Sender};

/// The capacity that is kept for the next overflow; more is freed.
const OVERFLOW_KEPT: usize = 4096;

struct Overflow<T> {
    /// Whether `entries` is not empty. Written under their lock.
    any: AtomicBool,
    entries: Mutex<VecDeque<T>>,
}

/// The sender's end.
pub struct Feed<T> {
    ring: Sender<T>,
    overflow: Arc<Overflow<T>>,
    gate: std::sync::Arc<Gate>,
}

/// The receiver's end.
pub struct Inbox<T> {
    ring: Receiver<T>,
    overflow: Arc<Overflow<T>>,
    /// Entries taken from the overflow; they come next.
    taken: VecDeque<T>,
}

/// Creates a queue whose ring has this capacity; the receiver sleeps at a gate of its own.
pub fn queue<T: Send>(capacity: usize) -> (Feed<T>, Inbox<T>) {
    let gate = std::sync::Arc::new(Gate::new());
    let (sender, receiver) = mailbox::mailbox(capacity, gate.clone());
    let overflow = Arc::new(Overflow {
        any: AtomicBool::new(false),
        entries: Mutex::new(VecDeque::new()),
    });
    let feed = Feed {
        ring: sender,
        overflow: overflow.clone(),
        gate,
    };
    let inbox = Inbox {
        ring: receiver,
        overflow,
        taken: VecDeque::new(),
    };
    (feed, inbox)
}

impl<T> Feed<T> {
    /// Appends the entry that `write` builds, in a ring slot if there is one, and wakes the
    /// receiver. `write` runs once. Never waits. If `write` panics in a slot the process aborts,
    /// since a claimed slot cannot be returned.
    ///
    /// # Safety
    /// `write` initializes the slot.
    #[inline]
    pub unsafe fn push_with(&mut self, write: impl FnMut(&mut MaybeUninit<T>)) {
        // SAFETY: the caller's promise.
        unsafe { self.push_unless(write, || false) }
    }

    /// As [`Feed::push_with`], but calls `instead` if the receiver sleeps; it returns `true` if the
    /// caller receives in the receiver's place or wakes it later.
    ///
    /// # Safety
    /// `write` initializes the slot.
    #[inline]
    pub unsafe fn push_unless(
        &mut self,
        mut write: impl FnMut(&mut MaybeUninit<T>),
        instead: impl Fn() -> bool,
    ) {
        // Relaxed: only this thread sets the flag. If it was cleared, the overflow had been taken,
        // and the receiver finishes the taken entries before it reads the ring.
        if !self.overflow.any.load(Ordering::Relaxed) {
            // SAFETY: the caller's promise.
            match unsafe { self.ring.try_send_unless(&mut write, &instead) } {
                Ok(_position) => return,
                Err(Refused::Full | Refused::Closed) => {}
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.push_overflow(write, instead) };
    }

    /// # Safety
    /// `write` initializes the slot.
    #[cold]
    unsafe fn push_overflow(
        &self,
        mut write: impl FnMut(&mut MaybeUninit<T>),
        instead: impl Fn() -> bool,
    ) {
        let mut slot = MaybeUninit::uninit();
        write(&mut slot);
        let mut entries = lock(&self.overflow.entries);
        // SAFETY: the caller promises that it is initialized, and it is moved out once.
        entries.push_back(unsafe { slot.assume_init() });
        // Release: pairs with the receiver's Acquire; a receiver that sees the flag finds the entry.
        self.overflow.any.store(true, Ordering::Release);
        drop(entries);
        self.gate.wake_unless(instead);
    }

    /// Appends an entry, as [`Feed::push_with`].
    #[inline]
    pub fn push(&mut self, entry: T) {
        let mut entry = Some(entry);
        // SAFETY: `write` runs once, while `entry` is `Some`.
        unsafe {
            self.push_with(|slot| {
                if let Some(entry) = entry.take() {
                    slot.write(entry);
                }
            });
        }
    }

    /// Wakes the receiver, which then calls its `stop` again.
    pub fn wake(&self) {
        self.gate.wake();
    }
}

impl<T> Inbox<T> {
    /// Registers the calling thread as the receiver.
    pub fn attach(&self) {
        self.ring.attach();
    }

    /// Passes the next entry to `f` in place, if there is one, then drops it.
    #[inline]
    pub fn next_with<R>(&mut self, mut f: impl FnMut(&mut T) -> R) -> Option<R> {
        if let Some(mut entry) = self.taken.pop_front() {
            return Some(f(&mut entry));
        }
        if let Some(done) = self.ring.try_recv_with(&mut f) {
            return Some(done);
        }
        // Acquire: pairs with the Release in `push_overflow`.
        if self.overflow.any.load(Ordering::Acquire) && self.take_overflow() {
            return self.next_with(f);
        }
        None
    }

    /// Passes the next entry to `f` without consuming it.
    pub fn peek_with<R>(&mut self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        // Acquire: as in `next_with`.
        if self.taken.is_empty()
            && !self.ring.has_next()
            && !(self.overflow.any.load(Ordering::Acquire) && self.take_overflow())
        {
            return None;
        }
        match self.taken.front_mut() {
            Some(entry) => Some(f(entry)),
            None => self.ring.peek_with(f),
        }
    }

    /// Takes the overflow if the ring is empty. Returns `true` if an entry is next now.
    #[cold]
    fn take_overflow(&mut self) -> bool {
        let mut entries = lock(&self.overflow.entries);
        // Checked under the lock: while the overflow is not empty the ring gets no new entry, so
        // every entry that is older than the overflow is visible here.
        if self.ring.has_next() {
            return true;
        }
        if self.taken.capacity() > OVERFLOW_KEPT {
            self.taken = VecDeque::new();
        }
        std::mem::swap(&mut *entries, &mut self.taken);
        // Release: the sender must not see the flag cleared before the overflow is taken. It sets
        // the flag under the lock as well.
        self.overflow.any.store(false, Ordering::Release);
        !self.taken.is_empty()
    }

    /// Returns `true` if an entry is visible to this end.
    #[inline]
    pub fn has_next(&self) -> bool {
        // Acquire: as in `next_with`.
        !self.taken.is_empty() || self.ring.has_next() || self.overflow.any.load(Ordering::Acquire)
    }

    /// Returns the gate at which the receiver sleeps.
    pub fn gate(&self) -> &std::sync::Arc<Gate> {
        self.ring.gate()
    }

    /// Sleeps until there is an entry or `stop` returns `true`. Blocks.
    pub fn wait(&self, spin: &mut Spinner, stop: impl Fn() -> bool) {
        self.ring
            .gate()
            .wait_until(spin, || (self.has_next() || stop()).then_some(()));
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::facade::SpinPolicy;

    /// Receives all present entries.
    fn drain(inbox: &mut Inbox<u64>) -> Vec<u64> {
        std::iter::from_fn(|| inbox.next_with(|entry| *entry)).collect()
    }

    fn overflows(feed: &Feed<u64>) -> bool {
        feed.overflow.any.load(Ordering::Relaxed)
    }

    #[test]
    fn entries_beyond_the_ring_keep_their_order() {
        let (mut feed, mut inbox) = queue(4);
        (1..=10).for_each(|entry| feed.push(entry));
        assert!(overflows(&feed));
        assert_eq!(inbox.next_with(|entry| *entry), Some(1));
        (11..=12).for_each(|entry| feed.push(entry));
        assert_eq!(drain(&mut inbox), (2..=12).collect::<Vec<_>>());
        assert!(!inbox.has_next());
        feed.push(13);
        assert!(!overflows(&feed), "the ring is in use again");
        assert_eq!(drain(&mut inbox), [13]);
    }

    #[test]
    fn order_holds_while_both_ends_run() {
        const ENTRIES: u64 = 200_000;
        let (mut feed, mut inbox) = queue(8);
        let receiver = std::thread::spawn(move || {
            inbox.attach();
            let mut spin = Spinner::new(SpinPolicy::default());
            let mut last = 0;
            while last < ENTRIES {
                match inbox.next_with(|entry| *entry) {
                    Some(entry) => {
                        assert_eq!(entry, last + 1);
                        last = entry;
                    }
                    None => inbox.wait(&mut spin, || false),
                }
            }
        });
        (1..=ENTRIES).for_each(|entry| feed.push(entry));
        receiver.join().unwrap();
    }

    #[test]
    fn remaining_entries_are_dropped_with_the_queue_i10() {
        let entry = std::sync::Arc::new(());
        let (mut feed, inbox) = queue(2);
        (0..5).for_each(|_| feed.push(entry.clone()));
        drop((feed, inbox));
        assert_eq!(std::sync::Arc::strong_count(&entry), 1);
    }
}

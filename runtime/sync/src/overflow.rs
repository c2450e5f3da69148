//! A queue from one thread to another that neither blocks its sender nor loses anything: a ring, and an overflow behind it.
//!
//! The ring is a [`mailbox`], for which whoever uses this bounds what is usually under way. What comes on top of that goes to
//! the overflow, a list under a lock, until the receiver has taken that whole.
//!
//! Order: once something lies in the overflow everything after goes there too, and the receiver takes the
//! overflow only after it has seen, under the overflow's lock, that the ring is empty. So ring before
//! overflow, and what was taken from the overflow before the ring again.

use std::collections::VecDeque;
use std::mem::MaybeUninit;

use crate::facade::atomic::{AtomicBool, Ordering};
use crate::facade::{Arc, Mutex, Spinner, lock};
use crate::gate::Gate;
use crate::mailbox::{self, Receiver, Refused, Sender};

/// Entries that stay allocated for the next overflow; more room than this is given back.
const OVERFLOW_KEPT: usize = 4096;

struct Overflow<T> {
    /// Does anything lie in `entries`? Written under their lock.
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
    /// Entries from the overflow, next in line.
    taken: VecDeque<T>,
}

/// A queue of this capacity before it overflows, whose receiver sleeps at a gate of its own.
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
    /// Appends the entry that `write` builds, in its slot where there is one, and wakes the receiver. `write` runs once. Never waits.
    /// If `write` panics in a slot the process aborts, since the slot cannot be taken back.
    ///
    /// # Safety
    /// `write` initializes what it is given.
    #[inline]
    pub unsafe fn push_with(&mut self, write: impl FnMut(&mut MaybeUninit<T>)) {
        // SAFETY: the caller's promise.
        unsafe { self.push_unless(write, || false) }
    }

    /// As [`Feed::push_with`], but where the receiver sleeps `instead` may say that it need not be woken: the caller
    /// receives in its stead, or wakes it later.
    ///
    /// # Safety
    /// `write` initializes what it is given.
    #[inline]
    pub unsafe fn push_unless(
        &mut self,
        mut write: impl FnMut(&mut MaybeUninit<T>),
        instead: impl Fn() -> bool,
    ) {
        // Relaxed: this thread alone sets the flag. When it was cleared, the overflow had been taken,
        // and the receiver finishes what it has taken before it looks at the ring.
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
    /// `write` initializes what it is given.
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
        // Release: pairs with the receiver's Acquire; a flag seen is an entry to be found.
        self.overflow.any.store(true, Ordering::Release);
        drop(entries);
        self.gate.wake_unless(instead);
    }

    /// Appends an entry, as [`Feed::push_with`].
    #[inline]
    pub fn push(&mut self, entry: T) {
        let mut entry = Some(entry);
        // SAFETY: `write` runs once, when the entry is there.
        unsafe {
            self.push_with(|slot| {
                if let Some(entry) = entry.take() {
                    slot.write(entry);
                }
            });
        }
    }

    /// Wakes the receiver to look around.
    pub fn wake(&self) {
        self.gate.wake();
    }
}

impl<T> Inbox<T> {
    /// Names the calling thread as the one that receives.
    pub fn attach(&self) {
        self.ring.attach();
    }

    /// Lets `f` use the next entry in place, if there is one; then it is dropped.
    #[inline]
    pub fn next_with<R>(&mut self, mut f: impl FnMut(&mut T) -> R) -> Option<R> {
        if let Some(mut entry) = self.taken.pop_front() {
            return Some(f(&mut entry));
        }
        if let Some(done) = self.ring.try_recv_with(&mut f) {
            return Some(done);
        }
        // Acquire: pairs with the feed's Release.
        if self.overflow.any.load(Ordering::Acquire) && self.take_overflow() {
            return self.next_with(f);
        }
        None
    }

    /// Lets `f` look at the next entry, which stays.
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

    /// Takes the overflow if it is next in line, and says whether anything is next in line now.
    #[cold]
    fn take_overflow(&mut self) -> bool {
        let mut entries = lock(&self.overflow.entries);
        // Looked at under the lock: while the overflow is not empty the ring gets nothing new, so what
        // is older than the overflow is seen here.
        if self.ring.has_next() {
            return true;
        }
        if self.taken.capacity() > OVERFLOW_KEPT {
            self.taken = VecDeque::new();
        }
        std::mem::swap(&mut *entries, &mut self.taken);
        // Release: the feed must not see the flag cleared before the overflow was taken; it is under
        // the lock as well, for the feed sets it there.
        self.overflow.any.store(false, Ordering::Release);
        !self.taken.is_empty()
    }

    /// Is anything there, as far as this end can see?
    #[inline]
    pub fn has_next(&self) -> bool {
        // Acquire: as in `next_with`.
        !self.taken.is_empty() || self.ring.has_next() || self.overflow.any.load(Ordering::Acquire)
    }

    /// Where the receiver sleeps.
    pub fn gate(&self) -> &std::sync::Arc<Gate> {
        self.ring.gate()
    }

    /// Sleeps until an entry or `stop` is there. Blocks.
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

    /// Receives what is there.
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
    fn what_is_left_is_dropped_i10() {
        let entry = std::sync::Arc::new(());
        let (mut feed, inbox) = queue(2);
        (0..5).for_each(|_| feed.push(entry.clone()));
        drop((feed, inbox));
        assert_eq!(std::sync::Arc::strong_count(&entry), 1);
    }
}

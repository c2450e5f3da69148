//! The two ends of a queue: a ring of entries, and an overflow behind it.
//!
//! The server keeps fewer tasks in flight than the ring holds, but waits and the tasks of recordings
//! come on top. So a full ring neither blocks the device thread nor loses work: entries go to the
//! overflow until the runner has taken it whole.
//!
//! Order: once something lies in the overflow everything after goes there too, and the runner takes the
//! overflow only after it has seen, under the overflow's lock, that the ring is empty. So ring before
//! overflow, and what was taken from the overflow before the ring again.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::Arc;

use millstream_core::id::Cursor;
use millstream_sync::facade::atomic::{AtomicBool, Ordering};
use millstream_sync::facade::{Mutex, Spinner, lock};
use millstream_sync::gate::Gate;
use millstream_sync::mailbox::{self, Receiver, Refused, Sender};

use crate::entry::Entry;

/// Tasks that the server may have in flight on one queue; it stays below this.
pub(crate) const QUEUE_DEPTH_MAX: usize = 1024;

/// Entries that stay allocated for the next overflow; more room than this is given back.
const OVERFLOW_KEPT: usize = 4096;

struct Overflow {
    /// Does anything lie in `entries`? Written under their lock.
    any: AtomicBool,
    entries: Mutex<VecDeque<Entry>>,
}

/// The device thread's end.
pub(crate) struct Feed {
    ring: Sender<Entry>,
    overflow: Arc<Overflow>,
    gate: Arc<Gate>,
}

/// The runner's end.
pub(crate) struct Inbox {
    ring: Receiver<Entry>,
    overflow: Arc<Overflow>,
    /// Entries from the overflow, next in line.
    taken: VecDeque<Entry>,
}

/// A queue of this capacity before it overflows.
pub(crate) fn queue(capacity: usize) -> (Feed, Inbox) {
    let gate = Arc::new(Gate::new());
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

impl Feed {
    /// Appends the entry that `build` makes of an empty one, and wakes the runner. `build` runs once.
    /// Never waits.
    #[inline]
    pub(crate) fn push(&mut self, cursor: Cursor, mut build: impl FnMut(&mut Entry)) {
        // Relaxed: this thread alone sets the flag. When it was cleared, the overflow had been taken,
        // and the runner finishes what it has taken before it looks at the ring.
        if !self.overflow.any.load(Ordering::Relaxed) {
            let write = |slot: &mut MaybeUninit<Entry>| build(Entry::init(slot, cursor));
            // SAFETY: `Entry::init` initializes the slot.
            match unsafe { self.ring.try_send_with(write) } {
                Ok(_position) => return,
                Err(Refused::Full | Refused::Closed) => {}
            }
        }
        self.push_overflow(cursor, build);
    }

    #[cold]
    fn push_overflow(&self, cursor: Cursor, mut build: impl FnMut(&mut Entry)) {
        let mut slot = MaybeUninit::uninit();
        build(Entry::init(&mut slot, cursor));
        let mut entries = lock(&self.overflow.entries);
        // SAFETY: `Entry::init` has initialized it, and it is moved out once.
        entries.push_back(unsafe { slot.assume_init() });
        // Release: pairs with the runner's Acquire; a flag seen is an entry to be found.
        self.overflow.any.store(true, Ordering::Release);
        drop(entries);
        self.gate.wake();
    }

    /// Wakes the runner to look around.
    pub(crate) fn wake(&self) {
        self.gate.wake();
    }
}

impl Inbox {
    /// Names the calling thread as the one that runs this queue.
    pub(crate) fn attach(&self) {
        self.ring.attach();
    }

    /// Lets `f` use the next entry in place, if there is one; then it is dropped.
    #[inline]
    pub(crate) fn next_with<R>(&mut self, mut f: impl FnMut(&mut Entry) -> R) -> Option<R> {
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
    pub(crate) fn has_next(&self) -> bool {
        // Acquire: as in `next_with`.
        !self.taken.is_empty() || self.ring.has_next() || self.overflow.any.load(Ordering::Acquire)
    }

    /// Sleeps until an entry or `stop` is there. Blocks.
    pub(crate) fn wait(&self, spin: &mut Spinner, stop: impl Fn() -> bool) {
        self.ring
            .gate()
            .wait_until(spin, || (self.has_next() || stop()).then_some(()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_sync::facade::SpinPolicy;

    /// Runs what is there and tells the cursors.
    fn drain(inbox: &mut Inbox) -> Vec<Cursor> {
        std::iter::from_fn(|| inbox.next_with(|entry| entry.cursor)).collect()
    }

    #[test]
    fn entries_beyond_the_ring_keep_their_order() {
        let (mut feed, mut inbox) = queue(4);
        (1..=10).for_each(|cursor| feed.push(cursor, |_| ()));
        assert_eq!(inbox.next_with(|entry| entry.cursor), Some(1));
        (11..=12).for_each(|cursor| feed.push(cursor, |_| ()));
        assert_eq!(drain(&mut inbox), (2..=12).collect::<Vec<_>>());
        assert!(!inbox.has_next());
        feed.push(13, |_| ());
        assert!(
            !feed.overflow.any.load(Ordering::Relaxed),
            "the ring is in use again"
        );
        assert_eq!(drain(&mut inbox), [13]);
    }

    #[test]
    fn order_holds_while_both_ends_run() {
        const ENTRIES: u64 = 200_000;
        let (mut feed, mut inbox) = queue(8);
        let runner = std::thread::spawn(move || {
            inbox.attach();
            let mut spin = Spinner::new(SpinPolicy::default());
            let mut last = 0;
            while last < ENTRIES {
                match inbox.next_with(|entry| entry.cursor) {
                    Some(cursor) => {
                        assert_eq!(cursor, last + 1);
                        last = cursor;
                    }
                    None => inbox.wait(&mut spin, || false),
                }
            }
        });
        (1..=ENTRIES).for_each(|cursor| feed.push(cursor, |_| ()));
        runner.join().unwrap();
    }
}

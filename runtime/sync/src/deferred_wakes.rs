//! Users' wakers that a thread reaches inside a device, and wakes once it has left.
//!
//! A waker is foreign code: it may take a lock. If a thread woke it inside a device, a second thread that holds this lock
//! and enters the device would wait for the first, and the first for the lock. And a caller that does the device's work in
//! place of the device's thread may hold the lock itself; it must not even wake the waker after it has left. So the thread
//! collects the wakers:
//!
//! ```text
//!   device thread                             caller in place of the device thread
//!   DeferredWakes::begin                      DeferredWakes::begin
//!   enters the device; works; leaves          enters the device; works
//!   drops it: wakes the wakers                take: leaves the wakers to the device thread, leaves the device, wakes it
//! ```
//! A waker may run code that has promised to do something, such as to free memory: until it is woken, that code has not
//! begun, and nothing else shows it. So code that decides that nothing can happen any more asks [`has_any`] first, and decides
//! again after the wakes.
//!
//! Threads, and wakers of the runtime itself (`Waiter::Own`), are woken at once: they only unpark a thread.
//!
//! # Wakers that are left to the device thread
//! [`LeftWakers`] is the list of them. The device thread looks for wakers at each of its turns, and so does each caller that
//! enters, which leaves its turn to the device thread if there are any. So `has_any` is a hint outside of the list's lock:
//!
//! ```text
//!   caller                                    device thread
//!   lock; push the wakers; has_any = true     has_any?                       (Relaxed)
//!   leave the device, if inside                 no:  sleep at the gate
//!   wake the gate                               yes: lock; has_any = false; take them; unlock; wake them
//! ```
//! The hint changes under the lock only, so it is set exactly while the list has wakers. A device thread that misses it has
//! not synchronized with the caller yet: it is woken at the gate, whose fences order the hint, or enters the device after the
//! caller has left it, and looks again. Loom checks it in `loom-tests/tests/models/left_wakers.rs`; the mutants
//! `left_wakers_*` break the order of the hint and the end.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use crate::facade::atomic::{AtomicBool, Ordering};
use crate::facade::{Mutex, lock};
use crate::payload;

/// The state of a thread.
struct Deferred {
    /// The wakers, while the thread collects them.
    wakers: Option<Vec<Waker>>,
    /// An empty list, kept so that a turn needs no heap (I9).
    spare: Vec<Waker>,
}

crate::__thread_local! {
    static DEFERRED: RefCell<Deferred> = RefCell::new(Deferred { wakers: None, spare: Vec::new() })
}

/// Calls `f` with the state of the thread, unless the thread ends.
fn with_deferred<R>(f: impl FnOnce(&mut Deferred) -> R) -> Option<R> {
    DEFERRED
        .try_with(|deferred| Some(f(&mut *deferred.try_borrow_mut().ok()?)))
        .ok()
        .flatten()
}

/// Collects the users' wakers that the calling thread would wake, until it is dropped. The drop wakes them.
#[must_use = "the wakers are woken when this is dropped"]
pub struct DeferredWakes {
    outer: Option<Vec<Waker>>,
    /// The wakers are those of one thread.
    _not_send: PhantomData<*const ()>,
}

impl DeferredWakes {
    /// Begins to collect, on the calling thread.
    pub fn begin() -> Self {
        let begin = |deferred: &mut Deferred| {
            let list = std::mem::take(&mut deferred.spare);
            deferred.wakers.replace(list)
        };
        Self {
            outer: with_deferred(begin).flatten(),
            _not_send: PhantomData,
        }
    }

    /// Takes the wakers that were collected so far. The caller has another thread wake them.
    pub fn take(&self) -> Vec<Waker> {
        let take = |deferred: &mut Deferred| deferred.wakers.as_mut().map(std::mem::take);
        with_deferred(take).flatten().unwrap_or_default()
    }
}

impl Drop for DeferredWakes {
    fn drop(&mut self) {
        let outer = self.outer.take();
        let end = |deferred: &mut Deferred| std::mem::replace(&mut deferred.wakers, outer);
        let mut wakers = with_deferred(end).flatten().unwrap_or_default();
        wakers.drain(..).for_each(wake);
        with_deferred(|deferred| deferred.spare = wakers);
    }
}

/// Returns `true` if the calling thread has collected a waker that waits to be woken.
#[inline]
pub fn has_any() -> bool {
    let has_any = |deferred: &mut Deferred| {
        let wakers = deferred.wakers.as_ref();
        wakers.is_some_and(|wakers| !wakers.is_empty())
    };
    with_deferred(has_any).unwrap_or(false)
}

/// Wakes a user's waker: at once, or once the calling thread has left the device in which it is. A panic of the waker ends
/// here.
pub fn wake(waker: Waker) {
    let mut waker = Some(waker);
    with_deferred(|deferred| {
        if let Some(wakers) = &mut deferred.wakers {
            wakers.extend(waker.take());
        }
    });
    if let Some(waker) = waker {
        wake_now(waker);
    }
}

/// Users' wakers that callers have left to the device's thread.
#[derive(Debug)]
pub struct LeftWakers {
    /// `list` has wakers. Changed under its lock only.
    has_any: AtomicBool,
    /// `None` once the device's thread wakes no more of them.
    list: Mutex<Option<Vec<Waker>>>,
}

impl Default for LeftWakers {
    fn default() -> Self {
        Self {
            has_any: AtomicBool::new(false),
            list: Mutex::new(Some(Vec::new())),
        }
    }
}

impl LeftWakers {
    /// Returns `true` if wakers are left that the device's thread has not taken.
    #[inline]
    pub fn has_any(&self) -> bool {
        // Relaxed: the gate or the lock of the device orders it; see the module.
        self.has_any.load(Ordering::Relaxed)
    }

    /// Leaves wakers to the device's thread, which the caller wakes if this returns `true`. After the [end](Self::end) wakes
    /// them: then no thread of the device waits for the caller.
    pub fn leave(&self, wakers: Vec<Waker>) -> bool {
        if wakers.is_empty() {
            return false;
        }
        if let Some(list) = &mut *lock(&self.list) {
            list.extend(wakers);
            // Relaxed: as in `has_any`.
            self.has_any.store(true, Ordering::Relaxed);
            return true;
        }
        wakers.into_iter().for_each(wake);
        false
    }

    /// Wakes the wakers that are left. For the device's thread, outside of the device.
    #[inline]
    pub fn wake_all(&self) {
        if self.has_any() {
            let left = self.take(|list| list.as_mut().map(std::mem::take));
            left.into_iter().flatten().for_each(wake);
        }
    }

    /// Wakes the wakers that are left; from now on callers wake theirs themselves.
    pub fn end(&self) {
        let left = self.take(Option::take);
        left.into_iter().flatten().for_each(wake);
    }

    fn take(
        &self,
        take: impl FnOnce(&mut Option<Vec<Waker>>) -> Option<Vec<Waker>>,
    ) -> Option<Vec<Waker>> {
        let mut list = lock(&self.list);
        // Relaxed: as in `has_any`.
        self.has_any.store(false, Ordering::Relaxed);
        take(&mut list)
    }
}

/// Wakes a waker. It is foreign code on the publisher's thread: its panic must reach neither that
/// thread nor the remaining waiters.
pub(crate) fn wake_now(waker: Waker) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        payload::end(panic);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::reply::reply;
    use crate::wait::tests::acting;
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Context;

    #[test]
    fn a_users_waker_waits_for_the_end_and_may_be_taken() {
        let woken = Arc::new(AtomicU32::new(0));
        for is_taken in [false, true] {
            let before = woken.load(Ordering::SeqCst);
            let (sender, mut receiver) = reply::<u32>();
            let waker = futures_count(&woken);
            let poll = Pin::new(&mut receiver).poll(&mut Context::from_waker(&waker));
            assert!(poll.is_pending());
            let deferred = DeferredWakes::begin();
            sender.send(7);
            assert!(has_any());
            assert_eq!(woken.load(Ordering::SeqCst), before);
            let taken = is_taken.then(|| deferred.take());
            drop(deferred);
            assert_eq!(woken.load(Ordering::SeqCst), before + u32::from(!is_taken));
            taken.into_iter().flatten().for_each(wake);
            assert_eq!(woken.load(Ordering::SeqCst), before + 1);
        }
    }

    fn futures_count(woken: &Arc<AtomicU32>) -> Waker {
        struct Counts(Arc<AtomicU32>);
        impl std::task::Wake for Counts {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        Waker::from(Arc::new(Counts(woken.clone())))
    }

    #[test]
    fn a_waker_that_panics_does_not_keep_the_others() {
        let woken = Arc::new(AtomicU32::new(0));
        let deferred = DeferredWakes::begin();
        let panics = Arc::new(AtomicU32::new(0));
        wake(acting(move || {
            // Woken, not dropped twice.
            assert!(
                panics.fetch_add(1, Ordering::SeqCst) > 0,
                "a waker that panics"
            );
        }));
        wake(futures_count(&woken));
        drop(deferred);
        assert_eq!(woken.load(Ordering::SeqCst), 1);
    }
}

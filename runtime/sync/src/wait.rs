//! Whom to wake: a parked thread, or an async task's waker. Waking either too often does no harm.

use crate::facade::thread::Thread;
use crate::payload;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Cloning and dropping a waker are foreign code as waking is: none of them under a lock.
#[derive(Clone, Debug)]
pub(crate) enum Waiter {
    Thread(Thread),
    Task(Waker),
}

impl Waiter {
    pub(crate) fn wake(self) {
        match self {
            Self::Thread(thread) => thread.unpark(),
            // A waker is foreign code on the thread of whoever publishes: its panic must reach neither that
            // thread nor those that are still to be woken.
            Self::Task(waker) => {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
                    payload::end(panic);
                }
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) mod tests {
    use std::task::{RawWaker, RawWakerVTable, Waker};

    /// What a waker does when it is cloned, woken or dropped.
    type Act = Box<dyn Fn() + Sync>;

    /// A waker that calls `act` whenever foreign code of a waker may run. It is leaked: a few bytes of a test.
    pub(crate) fn acting(act: impl Fn() + Sync + 'static) -> Waker {
        let act: Act = Box::new(act);
        let act: &'static Act = Box::leak(Box::new(act));
        let data = std::ptr::from_ref(act).cast();
        // SAFETY: the data lives for ever, is never written and may be shared; the functions own nothing.
        unsafe { Waker::from_raw(RawWaker::new(data, &ACTING)) }
    }

    static ACTING: RawWakerVTable = RawWakerVTable::new(
        |data| {
            call(data);
            RawWaker::new(data, &ACTING)
        },
        call,
        call,
        call,
    );

    fn call(data: *const ()) {
        // SAFETY: all wakers with this table are made by `acting`.
        let act = unsafe { &*data.cast::<Act>() };
        act();
    }
}

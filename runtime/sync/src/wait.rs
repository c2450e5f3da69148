//! A waiter: a parked thread, or the waker of an async task. A spurious wake does no harm.

use crate::deferred_wakes::{self, wake_now};
use crate::facade::thread::Thread;
use std::task::Waker;

/// A waiter. Cloning and dropping a waker run foreign code, as waking does: none of them under a lock.
#[derive(Clone, Debug)]
pub(crate) enum Waiter {
    Thread(Thread),
    /// A user's waker. A thread inside a device wakes it later: see [`deferred_wakes`].
    Task(Waker),
    /// A waker of the runtime, which unparks a thread and takes no lock of a user.
    Own(Waker),
}

impl Waiter {
    pub(crate) fn wake(self) {
        match self {
            Self::Thread(thread) => thread.unpark(),
            Self::Task(waker) => deferred_wakes::wake(waker),
            Self::Own(waker) => wake_now(waker),
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) mod tests {
    use std::task::{RawWaker, RawWakerVTable, Waker};

    /// The function that a test's waker calls.
    type Callback = Box<dyn Fn() + Sync>;

    /// Creates a waker that calls `act` when it is cloned, woken or dropped. It leaks a few bytes.
    pub(crate) fn acting(act: impl Fn() + Sync + 'static) -> Waker {
        let act: Callback = Box::new(act);
        let act: &'static Callback = Box::leak(Box::new(act));
        let data = std::ptr::from_ref(act).cast();
        // SAFETY: the data is never freed or written and may be shared; the functions own nothing.
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
        // SAFETY: only `acting` makes wakers with this table.
        let act = unsafe { &*data.cast::<Callback>() };
        act();
    }
}

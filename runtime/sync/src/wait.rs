//! Whom to wake: a parked thread, or an async task's waker. Waking either too often does no harm.

use crate::facade::thread::Thread;
use crate::payload;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

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

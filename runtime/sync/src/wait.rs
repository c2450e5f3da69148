//! Whom to wake: a parked thread, or an async task's waker. Waking either too often does no harm.

use crate::facade::thread::Thread;
use std::task::Waker;

#[derive(Debug)]
pub(crate) enum Waiter {
    Thread(Thread),
    Task(Waker),
}

impl Waiter {
    pub(crate) fn wake(self) {
        match self {
            Self::Thread(thread) => thread.unpark(),
            Self::Task(waker) => waker.wake(),
        }
    }
}

//! The face of random schedules: shuttle's types.
//!
//! Shuttle's atomics are sequentially consistent: it finds errors of protocol, not of ordering. Time does
//! not pass: a deadline never comes.

// Only one thread of a model runs at a time, and switches happen at atomics and locks.
#[path = "plain_cell.rs"]
pub mod cell;
pub(crate) use shuttle::sync::Condvar;
pub use shuttle::sync::{Arc, Mutex, MutexGuard, atomic};

#[doc(hidden)]
pub use ::shuttle as checker;

/// Whether a model checker runs the threads.
pub(crate) const IN_MODEL: bool = true;

/// Whether devices may start threads of their own.
pub const THREADS: bool = true;

/// Lets another thread of the model run.
pub fn relax() {
    shuttle::thread::yield_now();
}

/// Runs `f`: there is stack enough.
#[inline(always)]
pub fn with_stack<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// Threads and parking.
pub mod thread {
    pub use shuttle::thread::{JoinHandle, Thread, current, park, spawn, yield_now};
    use std::time::Instant;

    /// Parks: no deadline comes in a model.
    pub fn park_deadline(_: Instant) {
        park();
    }

    /// Parks; true: no deadline comes in a model.
    pub fn park_until(_: Option<Instant>) -> bool {
        park();
        true
    }

    /// Starts a thread with a name.
    pub fn spawn_named<T: Send + 'static>(
        name: &str,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<JoinHandle<T>> {
        shuttle::thread::Builder::new()
            .name(name.to_owned())
            .spawn(f)
    }

    /// Is this the calling thread's own handle?
    pub fn is_current<T>(handle: &JoinHandle<T>) -> bool {
        handle.thread().id() == current().id()
    }
}

//! std's types, for builds, and a cell with loom's closure API.

#[path = "plain_cell.rs"]
pub mod cell;
pub use std::sync::{Arc, Mutex, MutexGuard, atomic};

#[doc(hidden)]
pub use ::std as checker;

/// Whether a model checker runs the threads.
pub(crate) const IN_MODEL: bool = false;

/// Whether devices may start threads of their own.
pub const THREADS: bool = true;

/// Informs the processor that this thread spins.
#[inline(always)]
pub fn relax() {
    std::hint::spin_loop();
}

/// Runs `f`: the stack is large enough.
#[inline(always)]
pub fn with_stack<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// Threads and parking.
pub mod thread {
    pub use std::thread::{JoinHandle, Thread, current, park, spawn, yield_now};
    use std::time::{Duration, Instant};

    /// Starts a thread with a name. Fails if the system refuses.
    pub fn spawn_named<T: Send + 'static>(
        name: &str,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<JoinHandle<T>> {
        std::thread::Builder::new().name(name.to_owned()).spawn(f)
    }

    /// Returns `true` if the deadline has passed.
    pub fn is_past(deadline: Instant) -> bool {
        Instant::now() >= deadline
    }

    /// Sleeps. For polling a state that nothing signals; keep the time short.
    pub fn sleep(time: Duration) {
        std::thread::sleep(time);
    }

    /// Parks until unparked or until the deadline; may return early, like any park.
    pub fn park_deadline(deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            std::thread::park_timeout(left);
        }
    }

    /// Parks until unparked or until the deadline, if there is one. Returns `false`, without
    /// parking, once it has passed.
    pub fn park_until(deadline: Option<Instant>) -> bool {
        match deadline {
            None => park(),
            Some(at) if Instant::now() >= at => return false,
            Some(at) => park_deadline(at),
        }
        true
    }

    /// Returns `true` if this is the calling thread's own handle.
    pub fn is_current<T>(handle: &JoinHandle<T>) -> bool {
        handle.thread().id() == current().id()
    }
}

//! The face of a user's model: loom's parking, and std's everything else.
//!
//! A user checks code of his own. What happens inside a device is one step to him, so our atomics and locks are
//! none of loom's business: a device whose every load were a choice would never be done. What loom must know is
//! who blocks, which parking tells it, and what orders what, which [`Edges`](super::Edges) do.

#[path = "plain_cell.rs"]
pub mod cell;
#[path = "loom_parking.rs"]
mod parking;

pub use std::sync::{Arc, MutexGuard, atomic};
use std::sync::{LockResult, TryLockError, TryLockResult};

#[doc(hidden)]
pub use ::loom as checker;

/// Whether a model checker runs the threads.
pub(crate) const IN_MODEL: bool = true;

/// Whether devices may start threads of their own: a model has five in all.
pub const THREADS: bool = false;

/// Lets another thread of the model run.
pub fn relax() {
    loom::thread::yield_now();
}

/// `std::sync::Mutex`, whose holder may be a thread of the model that loom has stopped: who finds it locked
/// lets the others run.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// As std's.
    ///
    /// # Errors
    /// As std's.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        loop {
            match self.0.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(guard)) => return Err(guard),
                Err(TryLockError::WouldBlock) => loom::thread::yield_now(),
            }
        }
    }

    /// As std's.
    ///
    /// # Errors
    /// As std's.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        self.0.try_lock()
    }
}

/// What `f` may use of the stack, in bytes.
const STACK_BYTES: usize = 1 << 20;

/// Runs `f` with a stack of its own: loom gives a thread 32 KiB, and has no setting for a model's first thread.
pub fn with_stack<R>(f: impl FnOnce() -> R) -> R {
    stacker::grow(STACK_BYTES, f)
}

/// Parking, which is the model's; threads are not started.
pub mod thread {
    pub use super::parking::{Thread, current, park, park_deadline, park_until};
    pub use loom::thread::yield_now;
    pub use std::thread::JoinHandle;
    use std::time::{Duration, Instant};

    /// False: no deadline comes in a model.
    pub fn is_past(_: Instant) -> bool {
        false
    }

    /// Lets another thread of the model run.
    pub fn nap(_: Duration) {
        yield_now();
    }

    /// Starts no thread: a model has five, and they are its author's.
    ///
    /// # Errors
    /// Always.
    pub fn spawn_named<T: Send + 'static>(
        _: &str,
        _: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<JoinHandle<T>> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    /// Is this the calling thread's own handle?
    pub fn is_current<T>(_: &JoinHandle<T>) -> bool {
        false
    }
}

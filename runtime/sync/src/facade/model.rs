//! loom's parking and std's other types, for users' models.
//!
//! A user checks their own code, in which a device is one step. So loom does not see our atomics
//! and locks: a model in which each load of a device is a choice would never finish. loom must know
//! which threads block, which parking wakes them, and the happens-before order, which
//! [`Edges`](super::Edges) provides.

#[path = "plain_cell.rs"]
pub mod cell;
#[path = "loom_threads.rs"]
pub mod thread;

pub use std::sync::{Arc, MutexGuard, atomic};
use std::sync::{LockResult, TryLockError, TryLockResult};

#[doc(hidden)]
pub use ::loom as checker;

/// Whether a model checker runs the threads.
pub(crate) const IN_MODEL: bool = true;

/// Whether devices may start threads of their own: a model is limited to five threads in all.
pub const THREADS: bool = false;

/// Lets another thread of the model run.
pub fn relax() {
    loom::thread::yield_now();
}

/// `std::sync::Mutex`, whose holder may be a thread of the model that loom has suspended: a thread
/// that finds it locked lets the others run.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// As std's `lock`.
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

    /// As std's `try_lock`.
    ///
    /// # Errors
    /// As std's.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        self.0.try_lock()
    }
}

/// The stack that `f` may use, in bytes.
const STACK_BYTES: usize = 1 << 20;

/// Runs `f` with a stack of its own: loom gives a thread 32 KiB, and has no setting for a model's
/// first thread.
pub fn with_stack<R>(f: impl FnOnce() -> R) -> R {
    stacker::grow(STACK_BYTES, f)
}

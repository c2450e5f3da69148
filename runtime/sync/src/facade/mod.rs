//! The facade: the only access to atomics, locks, cells and threads.
//!
//! It has one of several implementations with the same names: std in a build; loom under `--cfg
//! loom` **with the feature `loom`**, for models of our primitives; loom's threads alone with the
//! feature `model`, for users' models, so that a user's own loom build without either is
//! unaffected; shuttle likewise, for random schedules of systems that are too large for loom.
//! `UnsafeCell` has loom's closure API, so that a model sees each access.
//!
//! The facade has no clock other than `Instant`, which only waiting reads.

#[cfg(all(loom, feature = "loom"))]
#[path = "loom.rs"]
mod imp;
#[cfg(all(shuttle, feature = "shuttle"))]
#[path = "shuttle.rs"]
mod imp;
#[cfg(all(loom, feature = "model", not(feature = "loom")))]
#[path = "model.rs"]
mod imp;
#[cfg(not(any(
    all(loom, any(feature = "loom", feature = "model")),
    all(shuttle, feature = "shuttle")
)))]
#[path = "std.rs"]
mod imp;

mod edges;
mod spin;
mod thread_flag;

pub use edges::Edges;
#[cfg(any(all(loom, feature = "loom"), all(shuttle, feature = "shuttle")))]
pub(crate) use imp::Condvar;
pub(crate) use imp::IN_MODEL;
#[doc(hidden)]
pub use imp::checker;
pub use imp::{Arc, Mutex, MutexGuard, THREADS, atomic, cell, relax, thread, with_stack};
pub use spin::{SpinPolicy, Spinner, set_spinner_limit, spins_begun};

use std::sync::{PoisonError, TryLockError};

/// Locks a mutex. Ignores poisoning: what our locks guard is consistent between any two statements,
/// so also after a panic of the last holder.
#[inline]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`lock`], but returns `None` if another thread holds the lock.
#[inline]
pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A statistic: a number that is reported and that nothing depends on. It is std's under every
/// model checker, so that it adds no state to a model.
#[derive(Debug, Default)]
pub struct Statistic(std::sync::atomic::AtomicU64);

impl Statistic {
    /// Creates a statistic that starts at `value`.
    pub const fn new(value: u64) -> Self {
        Self(std::sync::atomic::AtomicU64::new(value))
    }

    /// Returns the number. It may be stale.
    #[inline]
    pub fn get(&self) -> u64 {
        // Relaxed: nothing depends on it.
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Replaces the number.
    #[inline]
    pub fn set(&self, value: u64) {
        // Relaxed: nothing depends on it.
        self.0.store(value, std::sync::atomic::Ordering::Relaxed);
    }

    /// Adds to the number, from any thread; wraps on overflow.
    #[inline]
    pub fn add(&self, more: u64) {
        // Relaxed: nothing depends on it.
        self.0.fetch_add(more, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Keeps a value that is written often on cache lines of its own: two of them, since adjacent lines
/// are fetched in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

impl<T> std::ops::Deref for Padded<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

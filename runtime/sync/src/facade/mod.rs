//! The only door to atomics, locks, cells and threads.
//!
//! One of several faces stands behind it: std in a build; loom under `--cfg loom` **with the feature
//! `loom`**, for models of our primitives; loom's threads alone with the feature `model`, for users' models, so
//! that a user's own loom build without either is left alone; shuttle likewise, for
//! random schedules of systems that are too large for loom. The names are the same in each. `UnsafeCell` has loom's closure API, so that a model sees each access.
//!
//! What is not here: clocks beyond `Instant` (only waiting reads one), sleeps, condition variables.

#[cfg(all(loom, feature = "loom"))]
#[path = "loom_face.rs"]
mod face;
#[cfg(all(shuttle, feature = "shuttle"))]
#[path = "shuttle_face.rs"]
mod face;
#[cfg(all(loom, feature = "model", not(feature = "loom")))]
#[path = "model_face.rs"]
mod face;
#[cfg(not(any(
    all(loom, any(feature = "loom", feature = "model")),
    all(shuttle, feature = "shuttle")
)))]
#[path = "std_face.rs"]
mod face;

mod edges;
mod spin;
mod thread_flag;

pub use edges::Edges;
#[cfg(any(all(loom, feature = "loom"), all(shuttle, feature = "shuttle")))]
pub(crate) use face::Condvar;
pub(crate) use face::IN_MODEL;
#[doc(hidden)]
pub use face::checker;
pub use face::{Arc, Mutex, MutexGuard, THREADS, atomic, cell, relax, thread, with_stack};
pub use spin::{SpinPolicy, Spinner, set_spinner_limit, spins_begun};

use std::sync::{PoisonError, TryLockError};

/// Locks, and takes the lock as it is when its last holder panicked: what our locks guard is whole
/// between any two statements.
#[inline]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`lock`], but says so where somebody holds it.
#[inline]
pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A number that is shown and decides nothing. It is std's in every face, so that it adds no state
/// to a model.
#[derive(Debug, Default)]
pub struct Figure(std::sync::atomic::AtomicU64);

impl Figure {
    /// Starts at `value`.
    pub const fn new(value: u64) -> Self {
        Self(std::sync::atomic::AtomicU64::new(value))
    }

    /// The number as of lately.
    #[inline]
    pub fn get(&self) -> u64 {
        // Relaxed: nothing is decided by it.
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Replaces the number.
    #[inline]
    pub fn set(&self, value: u64) {
        // Relaxed: nothing is decided by it.
        self.0.store(value, std::sync::atomic::Ordering::Relaxed);
    }

    /// Adds to the number, from any thread; beyond the greatest it begins anew.
    #[inline]
    pub fn add(&self, more: u64) {
        // Relaxed: nothing is decided by it.
        self.0.fetch_add(more, std::sync::atomic::Ordering::Relaxed);
    }

    /// Makes the number `value` where it is less, from any thread.
    #[inline]
    pub fn raise(&self, value: u64) {
        // Relaxed: nothing is decided by it.
        self.0
            .fetch_max(value, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Keeps what is written often away from its neighbours: two cache lines, since adjacent ones are
/// fetched in pairs.
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

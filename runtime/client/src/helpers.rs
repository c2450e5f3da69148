//! Helpers of the threads that wait for a device: they go on with what external tasks of it wait for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

/// Goes on with what external tasks of a device wait for, on a thread that waits for the device, until the function that it
/// receives returns `true`. It may return early, and does not block.
pub type Helper = dyn Fn(&mut dyn FnMut() -> bool) + Send + Sync;

/// The helpers of a device.
#[derive(Default)]
pub(crate) struct Helpers {
    /// Set before the first helper is added.
    has_any: AtomicBool,
    list: Mutex<Vec<Weak<Helper>>>,
}

impl Helpers {
    fn list(&self) -> MutexGuard<'_, Vec<Weak<Helper>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a helper, as long as it lives.
    pub(crate) fn add(&self, helper: Weak<Helper>) {
        let mut list = self.list();
        list.retain(|helper| helper.strong_count() > 0);
        list.push(helper);
        // Relaxed: a thread that misses it sleeps.
        self.has_any.store(true, Ordering::Relaxed);
    }

    /// Helps until `done`, on a thread that waits. Returns early if there is nothing to help with.
    pub(crate) fn help(&self, mut done: impl FnMut() -> bool) {
        // Relaxed: see `add`.
        if !self.has_any.load(Ordering::Relaxed) {
            return;
        }
        let mut is_done = false;
        for index in 0.. {
            // The lock is not held while a helper runs.
            let helper = self.list().get(index).cloned();
            let Some(helper) = helper else { return };
            if let Some(helper) = helper.upgrade() {
                helper(&mut || {
                    is_done = done();
                    is_done
                });
            }
            if is_done {
                return;
            }
        }
    }
}

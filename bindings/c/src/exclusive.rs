//! Objects that one call at a time uses. A call while another is inside does not wait: it answers `MS_STATUS_BUSY`.

use std::sync::{Arc, Mutex, TryLockError, TryLockResult};

use crate::status::{Answer, Fault, ms_status};

pub(crate) struct Exclusive<T> {
    value: Arc<Mutex<T>>,
    /// The error of a call while another is inside.
    busy: &'static str,
}

impl<T> Clone for Exclusive<T> {
    fn clone(&self) -> Self {
        let (value, busy) = (self.value.clone(), self.busy);
        Self { value, busy }
    }
}

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T, busy: &'static str) -> Self {
        let value = Arc::new(Mutex::new(value));
        Self { value, busy }
    }

    /// Calls `use_value` with the value, unless another call is inside.
    ///
    /// Takes a clone, so that a callback that runs meanwhile may destroy the handle of the object.
    pub(crate) fn with<R>(self, use_value: impl FnOnce(&mut T) -> Answer<R>) -> Answer<R> {
        use_value(&mut *unless_busy(self.value.try_lock(), self.busy)?)
    }
}

/// Returns the guard of a lock, or the text `busy` if another call has the lock.
pub(crate) fn unless_busy<G>(locked: TryLockResult<G>, busy: &str) -> Answer<G> {
    match locked {
        Ok(guard) => Ok(guard),
        // The objects stay usable after a panic in a call: see `entry`.
        Err(TryLockError::Poisoned(guard)) => Ok(guard.into_inner()),
        Err(TryLockError::WouldBlock) => Err(Fault::new(ms_status::Busy, busy)),
    }
}

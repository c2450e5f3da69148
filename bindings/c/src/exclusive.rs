//! Objects that one call at a time uses. A call while another is inside does not wait: it answers `MS_STATUS_BUSY`.

use std::sync::{Arc, Mutex, TryLockError};

use crate::status::{Answer, Fault, ms_status};

pub(crate) struct Exclusive<T>(Arc<Mutex<T>>);

impl<T> Clone for Exclusive<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    /// Calls `use_value` with the value, or returns the text `busy` if another call is inside.
    ///
    /// Takes a clone, so that a callback that runs meanwhile may destroy the handle of the object.
    pub(crate) fn with<R>(
        self,
        busy: &str,
        use_value: impl FnOnce(&mut T) -> Answer<R>,
    ) -> Answer<R> {
        match self.0.try_lock() {
            Ok(mut value) => use_value(&mut value),
            Err(TryLockError::Poisoned(value)) => use_value(&mut value.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Fault::new(ms_status::Busy, busy)),
        }
    }
}

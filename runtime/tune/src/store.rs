//! The interface to a store of choices, which outlives a program.

use crate::error::StoreError;

/// A store for the bytes of a tuning cache.
pub trait Store: Send + Sync {
    /// Returns the location of the store, for reports.
    fn place(&self) -> String;

    /// Returns the contents, or `None` if nothing was stored yet.
    ///
    /// # Errors
    /// The error of the system.
    fn load(&self) -> Result<Option<Vec<u8>>, StoreError>;

    /// Replaces the contents atomically by the result of `change`: a concurrent `load` returns either the old or the
    /// new contents. No other update runs at the same time.
    ///
    /// # Errors
    /// The error of the system; the old contents remain.
    fn update(&self, change: &mut dyn FnMut(Option<Vec<u8>>) -> Vec<u8>) -> Result<(), StoreError>;
}

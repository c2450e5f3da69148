//! Where choices are kept between runs of a program.

use crate::error::StoreError;

/// A place for the bytes of a cache.
pub trait Store: Send + Sync {
    /// Where it is, for reports.
    fn place(&self) -> String;

    /// What is there; nothing, where nothing was kept yet.
    ///
    /// # Errors
    /// The system's.
    fn load(&self) -> Result<Option<Vec<u8>>, StoreError>;

    /// Replaces what is there by what `change` makes of it, at once: whoever loads sees what was before or what is after. Nobody else
    /// changes it meanwhile.
    ///
    /// # Errors
    /// The system's; what was there is there still.
    fn update(&self, change: &mut dyn FnMut(Option<Vec<u8>>) -> Vec<u8>) -> Result<(), StoreError>;
}

//! Where the pools have pages from.

use millstream_protocol::memory::{PageError, PageId};

/// Where pages come from: the backend.
pub trait PageSource {
    /// A page of at least `bytes`, whose start has the device's alignment.
    ///
    /// # Errors
    /// When the device has no such page now, never has, or is lost.
    fn allocate_page(&mut self, bytes: u64) -> Result<PageId, PageError>;

    /// Takes a page back. Nothing uses it any more: every point that did has passed.
    fn free_page(&mut self, page: PageId);
}

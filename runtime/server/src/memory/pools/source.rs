//! The source of pages.

use millstream_protocol::memory::{PageError, PageId};

/// A source of pages: the backend.
pub trait PageSource {
    /// Allocates a page of at least `bytes` bytes whose start has the alignment of the device.
    ///
    /// # Errors
    /// Returns an error if the device has no such page now, or never has one, or is lost.
    fn allocate_page(&mut self, bytes: u64) -> Result<PageId, PageError>;

    /// Frees a page. Every point that used it has passed.
    fn free_page(&mut self, page: PageId);
}

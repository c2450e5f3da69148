//! Pages: the unit in which a backend allocates device memory, and the pools divide it.

use std::fmt;

/// A page of a backend. The backend assigns the number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageId(pub u32);

impl PageId {
    /// No page. A backend must not assign this number.
    pub const NONE: PageId = PageId(u32::MAX);
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}", self.0)
    }
}

/// Why a page cannot be allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PageError {
    /// There is no memory at the moment; there may be after other pages are freed.
    #[error("the device is out of memory")]
    OutOfMemory {
        /// The free bytes, if the device reports them.
        free: Option<u64>,
    },
    /// The page is larger than the device ever allocates.
    #[error("the page exceeds the device's largest allocation of {limit} bytes")]
    TooLarge {
        /// The largest page, in bytes.
        limit: u64,
    },
    /// The device is lost.
    #[error("the device was lost")]
    Lost,
}

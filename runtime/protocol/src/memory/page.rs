//! Pages: what the pools cut up, and the backend's part of the bargain.

use std::fmt;

/// A page of a backend. The number is the backend's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageId(pub u32);

impl PageId {
    /// The page of a reservation of no bytes: no page at all. No backend may give this number out.
    pub const NONE: PageId = PageId(u32::MAX);
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}", self.0)
    }
}

/// Why there is no page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PageError {
    /// Not now; when others free memory there may be.
    #[error("the device is out of memory")]
    OutOfMemory {
        /// What the device says is free, where it says so.
        free: Option<u64>,
    },
    /// Never: no page may be so large.
    #[error("the device has no pages larger than {limit} bytes")]
    TooLarge {
        /// The largest page.
        limit: u64,
    },
    /// The device is gone.
    #[error("the device was lost")]
    Lost,
}

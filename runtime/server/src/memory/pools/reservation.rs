//! What the pools return: reservations, errors and figures.

use millstream_protocol::memory::{PageError, PageId};

use super::class::Class;

/// A range of a page, reserved for one slice. It is released once, by [`Pools::release`](super::Pools::release).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// The page, or [`PageId::NONE`] if no bytes were requested.
    pub page: PageId,
    /// The place in the pools that it comes from, so that a release is O(1).
    pub(super) origin: Origin,
    /// The first byte in the page, a multiple of the alignment.
    pub offset: u64,
    /// The usable bytes: the requested bytes and padding.
    pub bytes: u64,
    /// The requested bytes.
    pub requested: u64,
}

impl Reservation {
    /// The reservation of no bytes.
    pub(super) const EMPTY: Reservation = Reservation {
        page: PageId::NONE,
        origin: Origin::Empty,
        offset: 0,
        bytes: 0,
        requested: 0,
    };

    /// Returns the page, or `None` if no bytes were requested.
    #[inline]
    pub fn page(&self) -> Option<PageId> {
        (self.page != PageId::NONE).then_some(self.page)
    }
}

/// The part of the pools that a range belongs to, and its place there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// No bytes.
    Empty,
    /// A block of a chunk.
    Block {
        /// The block in the chunk.
        block: u8,
        /// Its class.
        class: Class,
        /// The chunk.
        chunk: u32,
    },
    /// A range of a shared page.
    Range {
        /// Its class.
        class: Class,
        /// The range.
        range: u32,
    },
    /// A whole page that is cached when it is clean.
    Page {
        /// The largest class that it holds.
        class: Class,
        /// The page.
        page: u32,
    },
    /// A whole page that is freed when it is clean.
    Dedicated(u32),
    /// A range of a persistent page.
    Persistent(u32),
}

/// The reason why a reservation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReserveError {
    /// There is no memory now. If `waiting` is not 0, freed memory returns when its points have passed.
    #[error(
        "out of memory: requested {requested} bytes; the pools hold {reserved} bytes, of which {waiting} wait for their last use"
    )]
    OutOfMemory {
        /// The bytes that were requested.
        requested: u64,
        /// The bytes of all pages of the pools.
        reserved: u64,
        /// The free bytes of the device, if it reports them.
        free: Option<u64>,
        /// The freed bytes that some point still uses.
        waiting: u64,
    },
    /// No device has a page of this size.
    #[error(
        "requested {requested} bytes, the device allocates at most {limit} bytes at once; use several handles"
    )]
    TooLarge {
        /// The bytes that were requested.
        requested: u64,
        /// The most bytes that can be requested.
        limit: u64,
    },
    /// The device is lost.
    #[error("the device was lost")]
    Lost,
}

impl ReserveError {
    /// Returns the error of a request that got no page.
    pub(super) fn new(requested: u64, reserved: u64, waiting: u64, error: PageError) -> Self {
        match error {
            PageError::OutOfMemory { free } => ReserveError::OutOfMemory {
                requested,
                reserved,
                free,
                waiting,
            },
            PageError::TooLarge { limit } => ReserveError::TooLarge { requested, limit },
            PageError::Lost => ReserveError::Lost,
        }
    }
}

impl Origin {
    /// Returns the class under which the range waits for its points.
    #[inline]
    pub(super) fn class(self) -> Class {
        match self {
            Origin::Block { class, .. }
            | Origin::Range { class, .. }
            | Origin::Page { class, .. } => class,
            Origin::Dedicated(_) | Origin::Persistent(_) | Origin::Empty => Class::QUIET,
        }
    }
}

/// What the pools hold. In bytes, unless stated otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PoolUsage {
    /// The bytes of all pages.
    pub reserved: u64,
    /// The bytes of slices, including padding.
    pub in_use: u64,
    /// The part of `in_use` that was not requested.
    pub padding: u64,
    /// The freed bytes that a point still uses.
    pub busy: u64,
    /// The greatest value of `in_use` so far.
    pub high_water: u64,
    /// The number of reservations.
    pub live: u64,
    /// The number of pages.
    pub pages: u64,
}

//! What the pools give and tell: reservations, errors and figures.

use millstream_protocol::memory::{PageError, PageId};

use super::class::Class;

/// A range of a page, reserved for one slice. Give it back with
/// [`Pools::release`](super::Pools::release), once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// The page; [`PageId::NONE`] if no bytes were asked.
    pub page: PageId,
    /// Where in the pools it comes from, so that a release is O(1).
    pub(super) origin: Origin,
    /// First byte in the page, a multiple of the alignment.
    pub offset: u64,
    /// Usable bytes: what was asked and the padding.
    pub bytes: u64,
    /// What was asked.
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

    /// The page, or none if no bytes were asked.
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
    /// A whole page that is kept.
    Page {
        /// The largest class that it holds.
        class: Class,
        /// The page.
        page: u32,
    },
    /// A whole page that is returned.
    Dedicated(u32),
    /// A range of a persistent page.
    Persistent(u32),
}

/// Why nothing could be reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReserveError {
    /// Not now. If `waiting` is not 0, freed memory comes back when its points have passed.
    #[error(
        "out of memory, requested {requested} bytes, {reserved} are reserved, {waiting} of them wait for their last use"
    )]
    OutOfMemory {
        /// Bytes that were asked.
        requested: u64,
        /// Bytes of all pages that the pools hold.
        reserved: u64,
        /// Free bytes of the device, where it says so.
        free: Option<u64>,
        /// Bytes that were freed and that some point still uses.
        waiting: u64,
    },
    /// Never.
    #[error("requested {requested} bytes, the largest allocation of the device is {limit}")]
    TooLarge {
        /// Bytes that were asked.
        requested: u64,
        /// The most that can be asked.
        limit: u64,
    },
    /// The device is gone.
    #[error("the device was lost")]
    Lost,
}

impl ReserveError {
    /// The error of a request that got no page.
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
    /// The class under which the range waits for its points.
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

/// What the pools hold, in bytes where nothing else is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PoolUsage {
    /// All pages.
    pub reserved: u64,
    /// Held by slices, with padding.
    pub in_use: u64,
    /// The part of `in_use` that nobody asked for.
    pub padding: u64,
    /// Freed, but a point still uses it.
    pub busy: u64,
    /// The most that `in_use` has been.
    pub high_water: u64,
    /// How many reservations are held.
    pub live: u64,
    /// How many pages there are.
    pub pages: u64,
}

//! What the pools return: reservations.

use millstream_protocol::PageId;

use super::class::Class;

/// A range of a page, reserved for one slice. It is released once, by [`Pools::release`](super::Pools::release).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// The page.
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

/// The part of the pools that a range belongs to, and its place there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
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

impl Origin {
    /// Returns the class under which the range waits for its points.
    #[inline]
    pub(super) fn class(self) -> Class {
        match self {
            Origin::Block { class, .. }
            | Origin::Range { class, .. }
            | Origin::Page { class, .. } => class,
            Origin::Dedicated(_) | Origin::Persistent(_) => Class::QUIET,
        }
    }
}

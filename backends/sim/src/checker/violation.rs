//! Everything that the checker can report: each violation names the tasks, places and bytes involved.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use millstream_protocol::{Access, BoundSlice, Cursor, PageId, Point, QueueId, SliceId};

use crate::threads::KernelMistake;

/// The place of an access: a point of a queue, or the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessSite {
    /// A task at this point.
    Queue(Point),
    /// A guard of the host, by its number.
    Host(u64),
}

/// One access to a range of bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Touch {
    /// The task's name.
    pub task: Arc<str>,
    /// The place of the access.
    pub place: AccessSite,
    /// The kind of access.
    pub access: Access,
    /// The slice that the task bound.
    pub slice: SliceId,
}

impl Touch {
    pub(super) fn new(task: &Arc<str>, place: AccessSite, bound: &BoundSlice) -> Self {
        Self {
            task: task.clone(),
            place,
            access: bound.access,
            slice: bound.slice,
        }
    }
}

impl fmt::Display for Touch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            task,
            access,
            slice,
            ..
        } = self;
        match self.place {
            AccessSite::Queue(point) => write!(f, "`{task}` on {point} ({access} of {slice})"),
            AccessSite::Host(guard) => {
                write!(f, "`{task}` {guard} on the host ({access} of {slice})")
            }
        }
    }
}

/// Bytes of a page, displayed as `bytes 0..16 of page 3`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bytes {
    /// The page.
    pub page: PageId,
    /// The range of its bytes.
    pub range: Range<u64>,
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.range;
        write!(f, "bytes {start}..{end} of {}", self.page)
    }
}

/// A rule of the backend contract that was broken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Two accesses conflict, and neither happens before the other (I2, I4).
    #[error("{later} races with {earlier} over {bytes}: neither happens before the other (I2, I4)")]
    Race {
        /// The access that was issued first.
        earlier: Touch,
        /// The access that was issued later.
        later: Touch,
        /// The first bytes that both touch.
        bytes: Bytes,
    },
    /// A program declares that it writes every byte of a binding, and did not store some (I7). Poisoned bytes among
    /// them would count as clean.
    #[error("{task} declares {bytes} as written, but did not store them (I7)")]
    Unwritten {
        /// The access.
        task: Touch,
        /// The first bytes that were not stored.
        bytes: Bytes,
    },
    /// The threads of a kernel race, or it has another mistake, which ended its launch. The launch fails as well.
    #[error("kernel `{kernel}`: {mistake}")]
    Kernel {
        /// The name of the kernel.
        kernel: Arc<str>,
        /// The mistake.
        mistake: KernelMistake,
    },
    /// A task binds a slice that was released (I4).
    #[error("{user} uses its slice after it was released (I4)")]
    UseAfterRelease {
        /// The access.
        user: Touch,
    },
    /// A task binds a slice that was never reserved.
    #[error("{user} uses a slice that was never reserved")]
    NeverReserved {
        /// The access.
        user: Touch,
    },
    /// A task touches bytes outside its slice.
    #[error("{user} touches {bytes}, which are not within its slice")]
    OutsideSlice {
        /// The access.
        user: Touch,
        /// The bytes that it touches.
        bytes: Bytes,
    },
    /// A live slice is reserved again, or its slot and generation were used before.
    #[error("{slice} is reserved twice")]
    ReservedTwice {
        /// The slice.
        slice: SliceId,
    },
    /// A slice is released that is not live.
    #[error("{slice} is released, but is not live")]
    ReleasedTwice {
        /// The slice.
        slice: SliceId,
    },
    /// Two live slices share bytes (I4).
    #[error("{slice} overlaps live {other} over {bytes} (I4)")]
    Overlap {
        /// The slice that was reserved later.
        slice: SliceId,
        /// The slice that was live before.
        other: SliceId,
        /// The shared bytes.
        bytes: Bytes,
    },
    /// A slice is reserved beyond its page, or on a page that is not live.
    #[error("{slice} is reserved at {bytes}, which are not within a live page")]
    OutsidePage {
        /// The slice.
        slice: SliceId,
        /// The bytes it was reserved at.
        bytes: Bytes,
    },
    /// A page is freed while a slice lies on it.
    #[error("{page} is freed while {slice} lies on it (I4)")]
    PageHasSlice {
        /// The page.
        page: PageId,
        /// The slice.
        slice: SliceId,
    },
    /// A page is freed before a use of it was seen to have passed.
    #[error("{page} is freed before {user} was seen to have passed (I4)")]
    PageInUse {
        /// The page.
        page: PageId,
        /// The access that uses it.
        user: Touch,
    },
    /// A page is freed on a lost device, of which nothing may be touched (I10).
    #[error("{page} is freed on a lost device (I10)")]
    PageFreedLost {
        /// The page.
        page: PageId,
    },
    /// A page is freed that is not live.
    #[error("{page} is freed, but is not live")]
    PageFreedTwice {
        /// The page.
        page: PageId,
    },
    /// A wait names a point that no flush has made observable.
    #[error("{queue} waits for {point}, but {} was flushed only up to {flushed}", .point.queue)]
    WaitUnflushed {
        /// The queue that waits.
        queue: QueueId,
        /// The point that it waits for.
        point: Point,
        /// The cursor up to which the other queue was flushed.
        flushed: Cursor,
    },
    /// A queue waits for itself, although its own order suffices (I3).
    #[error("{} waits for itself at {} (I3)", .point.queue, .point.cursor)]
    WaitForSelf {
        /// The point.
        point: Point,
    },
    /// A cursor of a queue is not greater than the one before.
    #[error("{point} is issued after {issued}: cursors must increase")]
    CursorNotNext {
        /// The point that was issued.
        point: Point,
        /// The cursor before it.
        issued: Cursor,
    },
    /// A batch ends at a task that was not issued, or not after the end of the last batch.
    #[error(
        "{point} is flushed, but {issued} is the last issued and {flushed} the last flushed cursor"
    )]
    FlushOutOfOrder {
        /// The end of the batch.
        point: Point,
        /// The last cursor that was issued.
        issued: Cursor,
        /// The last cursor that was flushed.
        flushed: Cursor,
    },
    /// A slice is live when the device closes, and has no handle (I10).
    #[error("{slice} is leaked: {bytes} (I10)")]
    SliceLeaked {
        /// The slice.
        slice: SliceId,
        /// Its memory.
        bytes: Bytes,
    },
    /// A page is live when the device closes, and has no slice (I10).
    #[error("{page} of {bytes} bytes is leaked (I10)")]
    PageLeaked {
        /// The page.
        page: PageId,
        /// Its size.
        bytes: u64,
    },
}

//! What the checker can find, each a sentence with the tasks, places and bytes that it is about.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use millstream_protocol::access::Access;
use millstream_protocol::id::{Cursor, Point, QueueId, SliceId};
use millstream_protocol::memory::PageId;

/// Where a user of memory stands: at a point of a queue, or on the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A task that was issued there.
    Queue(Point),
    /// A guard of the host, by its number.
    Host(u64),
}

/// One user of a range of bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Touch {
    /// The task's name.
    pub task: Arc<str>,
    /// Where it stands.
    pub place: Place,
    /// How it touches the bytes.
    pub access: Access,
    /// The slice by which it names them.
    pub slice: SliceId,
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
            Place::Queue(point) => write!(f, "`{task}` on {point} ({access} of {slice})"),
            Place::Host(guard) => write!(f, "`{task}` {guard} on the host ({access} of {slice})"),
        }
    }
}

/// Bytes of a page, as `bytes 0..16 of page 3`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bytes {
    /// The page.
    pub page: PageId,
    /// Which of its bytes.
    pub range: Range<u64>,
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.range;
        write!(f, "bytes {start}..{end} of {}", self.page)
    }
}

/// A rule of the backend that was broken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Two accesses conflict, and nothing puts one before the other (I2, I4).
    #[error(
        "{later} races with {earlier} over {bytes}: nothing puts one before the other (I2, I4)"
    )]
    Race {
        /// Who was issued first.
        earlier: Touch,
        /// Who was issued later.
        later: Touch,
        /// The first bytes that both touch.
        bytes: Bytes,
    },
    /// A program declares that it writes every byte of a binding, and left some out (I7): those that had failed would be taken for
    /// data.
    #[error("{task} declares {bytes} as written, but stores nothing there (I7)")]
    Unwritten {
        /// The task.
        task: Touch,
        /// The first bytes that it left out.
        bytes: Bytes,
    },
    /// A task names a slice that has ended (I4).
    #[error("{user} uses its slice after it was released (I4)")]
    UseAfterRelease {
        /// The task.
        user: Touch,
    },
    /// A task names a slice that never began.
    #[error("{user} uses a slice that was never reserved")]
    NeverReserved {
        /// The task.
        user: Touch,
    },
    /// A task touches bytes that are not those of its slice.
    #[error("{user} touches {bytes}, which its slice does not have there")]
    OutsideSlice {
        /// The task.
        user: Touch,
        /// What it touches.
        bytes: Bytes,
    },
    /// A slice begins while it lives, or after its slot went to another.
    #[error("{slice} is reserved twice")]
    ReservedTwice {
        /// The slice.
        slice: SliceId,
    },
    /// A slice ends that does not live.
    #[error("{slice} is released, but does not live")]
    ReleasedTwice {
        /// The slice.
        slice: SliceId,
    },
    /// Two slices that live share bytes (I4).
    #[error("{slice} overlaps {other}, which lives, over {bytes} (I4)")]
    Overlap {
        /// The one that was reserved later.
        slice: SliceId,
        /// The one that lived.
        other: SliceId,
        /// What they share.
        bytes: Bytes,
    },
    /// A slice lies beyond its page, or on one that does not live.
    #[error("{slice} is reserved at {bytes}, which the page does not have")]
    OutsidePage {
        /// The slice.
        slice: SliceId,
        /// Where it is said to lie.
        bytes: Bytes,
    },
    /// A page is freed with a slice on it.
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
        /// Who uses it.
        user: Touch,
    },
    /// A page is freed on a device that is lost: nothing of it may be touched (I10).
    #[error("{page} is freed on a lost device (I10)")]
    PageFreedLost {
        /// The page.
        page: PageId,
    },
    /// A page is freed that does not live.
    #[error("{page} is freed, but does not live")]
    PageFreedTwice {
        /// The page.
        page: PageId,
    },
    /// A wait names a point that no flush has made observable.
    #[error("{queue} is to wait for {point}, but {} was flushed up to {flushed} only", .point.queue)]
    WaitUnflushed {
        /// Who waits.
        queue: QueueId,
        /// For what.
        point: Point,
        /// How far that queue was flushed.
        flushed: Cursor,
    },
    /// A queue waits for itself: its order is enough (I3).
    #[error("{} waits for itself at {} (I3)", .point.queue, .point.cursor)]
    WaitForSelf {
        /// The point.
        point: Point,
    },
    /// Cursors of a queue go up.
    #[error("{point} is issued after {issued}")]
    CursorNotNext {
        /// What was issued.
        point: Point,
        /// The cursor before.
        issued: Cursor,
    },
    /// A batch ends at a task that was issued, after the last one that ended.
    #[error("{point} is flushed, but {issued} was issued and {flushed} was flushed before")]
    FlushOutOfOrder {
        /// The end of the batch.
        point: Point,
        /// How far was issued.
        issued: Cursor,
        /// How far was flushed.
        flushed: Cursor,
    },
    /// A slice lives when the device is closed, and nobody holds a handle of it (I10).
    #[error("{slice} is leaked: {bytes} (I10)")]
    SliceLeaked {
        /// The slice.
        slice: SliceId,
        /// Its memory.
        bytes: Bytes,
    },
    /// A page lives when the device is closed, and no slice lies on it (I10).
    #[error("{page} of {bytes} bytes is leaked (I10)")]
    PageLeaked {
        /// The page.
        page: PageId,
        /// Its size.
        bytes: u64,
    },
}

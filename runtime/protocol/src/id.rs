//! Ids: of queues, cursors and points, and generational ids of streams, slices and kernels.
//!
//! Ids are typed plain numbers. An id of the shared slot table has a generation, so an id that outlives its object
//! resolves to nothing instead of to the next occupant of the slot.

use std::fmt;

use millstream_sync::slots::SlotId;

/// The maximum number of queues of a device. Vector clocks are arrays of this length.
pub const MAX_QUEUES: usize = 16;

/// A queue of one device: a worker of the CPU, a CUDA stream. Queues are few and fixed at opening.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueueId(pub u8);

impl QueueId {
    /// Returns the queue as an index into tables of length [`MAX_QUEUES`].
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue {}", self.0)
    }
}

/// A position in a queue. The first task of a queue has cursor 1; cursor 0 has always passed.
pub type Cursor = u64;

/// A queue and a cursor. The point has passed once every task up to `cursor` on `queue` has completed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Point {
    /// The queue.
    pub queue: QueueId,
    /// The position in the queue.
    pub cursor: Cursor,
}

impl Point {
    /// Creates the point of `cursor` on `queue`.
    #[inline]
    pub fn new(queue: QueueId, cursor: Cursor) -> Self {
        Self { queue, cursor }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.queue, self.cursor)
    }
}

/// The number of a client, for accounting. Clones of a client share it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId(pub u32);

macro_rules! slot_ids {
    ($($(#[$doc:meta])* $name:ident: $word:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub SlotId);

        impl $name {
            /// Returns the index of the slot in the shared table.
            #[inline]
            pub fn index(self) -> u32 {
                self.0.index
            }

            /// Returns the generation, which distinguishes the occupants of one slot.
            #[inline]
            pub fn generation(self) -> u32 {
                self.0.generation
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {}"), self.0.index)
            }
        }
    )*};
}

slot_ids! {
    /// A stream: a logical order of tasks.
    StreamId: "stream";
    /// A slice: a range of device memory, counted by handles.
    SliceId: "slice";
    /// A kernel that is registered on a device.
    KernelId: "kernel";
    /// A recording that is registered on a device.
    RecordingId: "recording";
    /// A client in one epoch of a device.
    ClientSlotId: "client";
}

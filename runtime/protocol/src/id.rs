//! Names of things: queues, cursors and points, and the generational ids of streams, slices and kernels.
//!
//! Ids are plain numbers with a type. An id of the shared slot table carries a generation, so an id
//! that outlived its thing resolves to nothing instead of to its successor.

use std::fmt;

use millstream_sync::slots::SlotId;

/// Most queues that one device may have. Clocks are arrays of this length.
pub const MAX_QUEUES: usize = 16;

/// A physical order on the device: a worker of the CPU, a CUDA stream. Few, fixed at opening.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueueId(pub u8);

impl QueueId {
    /// The queue as an index into tables of length [`MAX_QUEUES`].
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

/// A moment of a queue: everything up to `cursor` on `queue` has completed. What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Point {
    /// The queue.
    pub queue: QueueId,
    /// The position in it.
    pub cursor: Cursor,
}

impl Point {
    /// The point of `cursor` on `queue`.
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
            /// The place in the shared table.
            #[inline]
            pub fn index(self) -> u32 {
                self.0.index
            }

            /// Which occupant of that place is meant.
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
    /// A logical order of tasks.
    StreamId: "stream";
    /// A range of device memory that handles count.
    SliceId: "slice";
    /// A kernel that a device knows.
    KernelId: "kernel";
    /// A recording that a device knows.
    RecordingId: "recording";
    /// A client, in one epoch of a device.
    SeatId: "client";
}

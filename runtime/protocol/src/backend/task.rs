//! Tasks as a backend receives them.

use std::sync::Arc;

use crate::binding::Access;
use crate::id::{Cursor, QueueId, SliceId};
use crate::kernel::BackendKernel;
use crate::launch::TensorMap;
use crate::memory::PageId;
use crate::message::OwnedBytes;

/// A range of device memory as one argument of one task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoundSlice {
    /// The page; `None` for an empty range.
    pub page: Option<PageId>,
    /// The first byte within the page.
    pub offset: u64,
    /// The length in bytes.
    pub len: u64,
    /// How the task accesses the bytes.
    pub access: Access,
    /// The slice, which has the poison of the bytes.
    pub slice: SliceId,
    /// The first byte within the slice.
    pub slice_offset: u64,
}

/// The cube count of a launch.
#[derive(Clone, Copy, Debug)]
pub enum BoundCount {
    /// A known count.
    Static([u32; 3]),
    /// Three `u32` that the device reads when the launch starts.
    Dynamic(BoundSlice),
}

/// A launch. The fields are borrowed: the backend copies what outlives the call.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// The kernel's name.
    pub name: &'a Arc<str>,
    /// The result of [`Compiler::compile`](super::Compiler::compile).
    pub kernel: &'a BackendKernel,
    /// The cube count.
    pub count: BoundCount,
    /// The bindings, in declared order.
    pub bindings: &'a [BoundSlice],
    /// The packed scalars.
    pub scalars: &'a [u64],
    /// The metadata words.
    pub metadata: &'a [u32],
    /// The tensor maps.
    pub tensor_maps: &'a [TensorMap],
}

/// The queue, the cursor and the name of a task.
#[derive(Clone, Copy)]
pub struct TaskPoint<'a> {
    /// The queue.
    pub queue: QueueId,
    /// The cursor.
    pub cursor: Cursor,
    /// The task's name.
    pub name: &'a Arc<str>,
}

/// The source bytes of a copy in.
pub enum HostData {
    /// A few bytes, in the low end of these words.
    Words {
        /// The words.
        words: [u64; crate::launch::INLINE_WORDS],
        /// The number of valid bytes.
        len: usize,
    },
    /// Owned bytes. The backend drops them after the copy.
    Owned(OwnedBytes),
}

impl HostData {
    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            HostData::Words { words, len } => &bytemuck::cast_slice(words)[..*len],
            HostData::Owned(owned) => owned.bytes(),
        }
    }
}

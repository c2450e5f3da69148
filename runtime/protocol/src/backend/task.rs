//! A task as a backend sees it.

use std::sync::Arc;

use crate::access::Access;
use crate::id::{Cursor, QueueId, SliceId};
use crate::kernel::{BackendKernel, ExecutionMode};
use crate::launch::TensorMap;
use crate::memory::PageId;
use crate::message::HostBytes;

/// A range of device memory as one argument of one task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoundSlice {
    /// The page, or none for an empty range.
    pub page: Option<PageId>,
    /// First byte within the page.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// How the task touches them.
    pub access: Access,
    /// The slice, for the poison of its bytes.
    pub slice: SliceId,
    /// First byte within the slice.
    pub slice_offset: u64,
}

/// Cubes of a launch as a backend sees them.
#[derive(Clone, Copy, Debug)]
pub enum BoundCount {
    /// Known.
    Static([u32; 3]),
    /// Three `u32` to be read on the device when the launch starts.
    Dynamic(BoundSlice),
}

/// A launch as a backend sees it. Borrowed: what outlives the call must be copied.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// The kernel's name.
    pub name: &'a Arc<str>,
    /// What [`Compiler::compile`](super::Compiler::compile) made of it.
    pub kernel: &'a BackendKernel,
    /// Its cubes.
    pub count: BoundCount,
    /// Is it guarded? What is not was launched by an `unsafe` call, whose caller vouches for the kernel.
    pub mode: ExecutionMode,
    /// Its bindings, in declared order.
    pub bindings: &'a [BoundSlice],
    /// Its packed scalars.
    pub scalars: &'a [u64],
    /// Its metadata words.
    pub metadata: &'a [u32],
    /// Its tensor maps.
    pub tensor_maps: &'a [TensorMap],
}

/// The place of a task: where it is issued and what it is called there.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The queue.
    pub queue: QueueId,
    /// Its position.
    pub cursor: Cursor,
    /// The task's name.
    pub name: &'a Arc<str>,
}

/// The bytes of a copy in, as a backend sees them.
pub enum HostData {
    /// A few bytes, in the low end of these words.
    Words {
        /// The words.
        words: [u64; crate::launch::INLINE_WORDS],
        /// How many bytes count.
        len: usize,
    },
    /// Owned bytes, to be dropped after the copy.
    Owned(Box<dyn HostBytes>),
}

impl HostData {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            HostData::Words { words, len } => &bytemuck::cast_slice(words)[..*len],
            HostData::Owned(owned) => owned.bytes(),
        }
    }
}

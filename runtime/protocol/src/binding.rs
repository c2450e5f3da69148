//! A range of a slice as one argument of one task, with the access of the task.

use std::fmt;

use crate::id::SliceId;

/// A handle as one argument of one task: plain numbers, without a reference count.
///
/// The slice stays alive because its free takes effect only after the mailbox has passed every task that was sent
/// before the free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Binding {
    /// The slice.
    pub slice: SliceId,
    /// The first byte within the slice.
    pub offset: u64,
    /// The length in bytes.
    pub len: u64,
    /// How the task accesses the bytes.
    pub access: Access,
    /// The slice's key once the device thread has resolved it; [`Binding::UNRESOLVED`] before.
    pub key: u32,
}

impl Binding {
    /// The key of a binding that the device thread has not resolved.
    pub const UNRESOLVED: u32 = u32::MAX;

    /// Creates a binding that is not resolved.
    #[inline]
    pub fn new(slice: SliceId, offset: u64, len: u64, access: Access) -> Self {
        Self {
            slice,
            offset,
            len,
            access,
            key: Self::UNRESOLVED,
        }
    }

    /// Returns the same range with another access.
    pub fn with_access(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// Returns `true` if the two ranges share a byte.
    #[inline]
    pub fn overlaps(&self, other: &Binding) -> bool {
        self.slice == other.slice
            && self.len > 0
            && other.len > 0
            && self.offset < other.offset + other.len
            && other.offset < self.offset + self.len
    }

    /// Returns the number of bytes that both ranges have.
    pub fn shared_bytes(&self, other: &Binding) -> u64 {
        if !self.overlaps(other) {
            return 0;
        }
        let end = |binding: &Binding| binding.offset + binding.len;
        end(self).min(end(other)) - self.offset.max(other.offset)
    }

    /// Returns `true` if the two ranges share a byte that at least one of them writes.
    #[inline]
    pub fn conflicts(&self, other: &Binding) -> bool {
        self.slice == other.slice
            && (self.access.writes() || other.access.writes())
            && self.overlaps(other)
    }
}

// How a task accesses a binding.

/// How one task accesses the bytes of one binding.
///
/// The default is [`Access::ReadWrite`].
// The order of the variants is their code in a submission log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "journal", derive(serde::Serialize, serde::Deserialize))]
pub enum Access {
    /// The task only reads the bytes. Any number of reads may overlap in time.
    Read,
    /// The task defines every byte and reads none: a `Write` heals poisoned bytes.
    Write,
    /// The task reads the bytes and writes some of them. If a byte is poisoned before the task, it is poisoned after
    /// it.
    #[default]
    ReadWrite,
}

impl Access {
    /// Returns `true` if the task depends on the previous contents.
    #[inline]
    pub fn reads(self) -> bool {
        !matches!(self, Access::Write)
    }

    /// Returns `true` if the task may change bytes.
    #[inline]
    pub fn writes(self) -> bool {
        !matches!(self, Access::Read)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::ReadWrite => "update",
        })
    }
}

//! A part of a slice as one argument of one task.

use crate::access::Access;
use crate::id::SliceId;

/// A handle as one argument of one task: plain numbers, no count. What it names stays alive because
/// a free is honoured only once the mailbox has passed every task sent before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Binding {
    /// The slice.
    pub slice: SliceId,
    /// First byte within the slice.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// How the task touches them.
    pub access: Access,
    /// The slice's key, once the device thread has looked it up; [`Binding::UNRESOLVED`] before.
    pub key: u32,
}

impl Binding {
    /// The key of a slice that nobody has looked up.
    pub const UNRESOLVED: u32 = u32::MAX;

    /// A part of a slice as an argument.
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

    /// The same part, touched in another way.
    pub fn with_access(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// Do the two share a byte?
    #[inline]
    pub fn overlaps(&self, other: &Binding) -> bool {
        self.slice == other.slice
            && self.len > 0
            && other.len > 0
            && self.offset < other.offset + other.len
            && other.offset < self.offset + self.len
    }

    /// Do the two share a byte that one of them writes?
    #[inline]
    pub fn conflicts(&self, other: &Binding) -> bool {
        self.slice == other.slice
            && (self.access.writes() || other.access.writes())
            && self.overlaps(other)
    }
}

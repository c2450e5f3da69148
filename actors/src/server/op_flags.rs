//! The properties of an operation that admission needs, looked up once by the operation's discriminant.

use millstream_protocol::Op;

/// A set of the constants below.
#[derive(Clone, Copy)]
pub(super) struct OpFlags(u8);

impl OpFlags {
    /// The operation is not a task.
    pub(super) const CONTROL: u8 = 1;
    /// The operation is never issued at once: it needs memory, or waits until earlier tasks have completed.
    pub(super) const HELD: u8 = 2;
    /// A caller waits for its answer.
    pub(super) const ANSWER: u8 = 4;
    /// Drops are processed before it, so that a caller that dropped a value and then syncs observes the drop.
    pub(super) const SYNC: u8 = 8;
    /// It may take more cursors than its queue has room for: one for each task of a recording, or for each result.
    pub(super) const MANY: u8 = 16;

    /// The flag of [`Self::PLAIN_LAUNCH`].
    pub(super) const PLAIN: u8 = 32;

    /// A launch without extra. As a constant it lets the compiler remove the tests for all other tasks.
    pub(super) const PLAIN_LAUNCH: Self = Self(Self::PLAIN);

    #[inline]
    pub(super) fn of(op: &Op) -> Self {
        Self(match op {
            Op::Taken | Op::Device(_) | Op::Register(_) | Op::Flush => Self::CONTROL,
            Op::Reserve { .. } => Self::HELD,
            Op::Host(_) => Self::HELD | Self::ANSWER,
            Op::CopyOut(_) => Self::ANSWER | Self::MANY,
            Op::SyncPart(_) => Self::ANSWER,
            Op::Answer(_) => Self::ANSWER | Self::SYNC,
            Op::Launch { .. }
            | Op::CopyIn(_)
            | Op::Copy
            | Op::Fill(_)
            | Op::Mark
            | Op::Custom(_)
            | Op::DropAfter(_) => 0,
            Op::Replay { .. } => Self::MANY,
        })
    }

    /// Returns `true` if any of these flags is set.
    #[inline(always)]
    pub(super) fn has(self, these: u8) -> bool {
        self.0 & these != 0
    }
}

//! What an operation is to admission: looked up once, in a table by the operation's discriminant.

use millstream_protocol::message::Op;

/// What holds of an operation: some of the constants.
#[derive(Clone, Copy)]
pub(super) struct OpFlags(u8);

impl OpFlags {
    /// It is no task.
    pub(super) const ORDER: u8 = 1;
    /// It is never issued at once: it waits for memory, or for what comes before it to complete.
    pub(super) const HELD: u8 = 2;
    /// A caller waits for what it brings.
    pub(super) const ASKED: u8 = 4;
    /// Drops are honoured before it: a caller who dropped something and then syncs finds it dropped.
    pub(super) const SYNC: u8 = 8;

    /// None of them, as of a launch and of a point.
    pub(super) const NONE: Self = Self(0);

    #[inline]
    pub(super) fn of(op: &Op) -> Self {
        Self(match op {
            Op::Taken | Op::Ask(_) | Op::Register(_) | Op::Flush => Self::ORDER,
            Op::Reserve { .. } => Self::HELD,
            Op::Host(_) => Self::HELD | Self::ASKED,
            Op::CopyOut(_) => Self::ASKED,
            Op::Answer(_) => Self::ASKED | Self::SYNC,
            Op::Launch { .. }
            | Op::CopyIn(_)
            | Op::Copy
            | Op::Fill(_)
            | Op::Mark
            | Op::Custom(_)
            | Op::DropAfter(_)
            | Op::Replay { .. } => 0,
        })
    }

    /// Does any of these hold?
    #[inline(always)]
    pub(super) fn has(self, these: u8) -> bool {
        self.0 & these != 0
    }
}

//! How a task accesses a binding.

use std::fmt;

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

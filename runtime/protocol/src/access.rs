//! How a task touches a binding.

use std::fmt;

/// How one task touches the bytes of one binding.
///
/// Where nothing is said, [`Access::ReadWrite`] is assumed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Access {
    /// The bytes are only read. Any number of readers may overlap in time.
    Read,
    /// Every byte is defined by the task, whatever it was before: a `Write` heals poisoned bytes.
    Write,
    /// The bytes are read and some of them are written. Poison in goes to poison out.
    #[default]
    ReadWrite,
}

impl Access {
    /// Does the task see what was there before?
    #[inline]
    pub fn reads(self) -> bool {
        !matches!(self, Access::Write)
    }

    /// Does the task change bytes?
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

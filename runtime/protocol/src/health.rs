//! Whether a device runs, and what helps where it does not. Publishing and watching it is in [`vitals`](crate::vitals).
//!
//! A device lives through *epochs*: one each time it is opened. Only a loss ends an epoch whose device can
//! go on, as the next epoch.

use std::fmt;

/// What helps after a device was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// It can be opened again in this process.
    SameProcess,
    /// Only another process can open it: nothing that this one still has of it may be touched.
    NewProcess,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Recovery::SameProcess => "reopen the device",
            Recovery::NewProcess => "start another process to open the device again",
        })
    }
}

/// How a device is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Health {
    /// It takes tasks.
    Running {
        /// How often it had been opened before.
        epoch: u64,
    },
    /// It was lost: whatever is asked of it answers [`Error::DeviceLost`](crate::error::Error::DeviceLost).
    Lost {
        /// How often it had been opened before.
        epoch: u64,
        /// What helps.
        recovery: Recovery,
    },
    /// It was closed, for good.
    Closed,
}

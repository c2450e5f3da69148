//! The health of a device, and how a lost device can be opened again. The module [`health_state`](crate::health_state)
//! publishes it.
//!
//! A device lives through *epochs*, one for each opening. An epoch ends by a close or a loss; the device can go on in a
//! new epoch only after a loss.

use std::fmt;

/// How a lost device can be opened again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// This process can open the device again.
    SameProcess,
    /// Only another process can open the device. This process must not touch what it still holds of the device.
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

/// The health of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Health {
    /// The device accepts tasks.
    Running {
        /// The number of earlier openings.
        epoch: u64,
    },
    /// The device was lost: every request returns [`Error::DeviceLost`](crate::error::Error::DeviceLost).
    Lost {
        /// The number of earlier openings.
        epoch: u64,
        /// How the device can be opened again.
        recovery: Recovery,
    },
    /// The device was closed and cannot be opened again.
    Closed,
}

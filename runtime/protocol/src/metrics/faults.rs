//! Failed tasks by reason, counted on the thread where they fail.

use millstream_sync::facade::{Mutex, lock};

use crate::failure::Reason;

/// Failed tasks by [`Reason`], including slices that got no memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct FaultCounts {
    /// The device had no memory.
    pub out_of_memory: u64,
    /// User code panicked.
    pub panicked: u64,
    /// Data that they read was poisoned.
    pub input: u64,
    /// The device refused them, or another rank ended their collective.
    pub refused: u64,
    /// The device was lost.
    pub lost: u64,
    /// They were passed a parameter of a recording outside of a replay.
    pub parameter: u64,
    /// They were cancelled before they began.
    pub cancelled: u64,
    /// Their deadline passed before they began.
    pub deadline_passed: u64,
}

impl FaultCounts {
    /// Returns all counts with the names of their reasons, which label the metrics.
    pub fn by_reason(&self) -> [(&'static str, u64); 8] {
        [
            ("out_of_memory", self.out_of_memory),
            ("panicked", self.panicked),
            ("input", self.input),
            ("refused", self.refused),
            ("lost", self.lost),
            ("parameter", self.parameter),
            ("cancelled", self.cancelled),
            ("deadline_passed", self.deadline_passed),
        ]
    }

    /// Returns the sum of all counts.
    pub fn total(&self) -> u64 {
        self.by_reason().iter().map(|(_, count)| count).sum()
    }
}

/// Fault counts that any thread may increment.
#[derive(Default)]
pub struct SharedFaults(Mutex<FaultCounts>);

impl SharedFaults {
    /// Counts a task that failed for this reason.
    #[cold]
    pub fn count(&self, reason: &Reason) {
        let mut counts = lock(&self.0);
        let count = match reason {
            Reason::OutOfMemory { .. } => &mut counts.out_of_memory,
            Reason::Panicked(_) => &mut counts.panicked,
            Reason::Input => &mut counts.input,
            Reason::Refused(_) | Reason::Remote(_) => &mut counts.refused,
            // No metrics are requested of a closed device.
            Reason::Lost | Reason::Closed => &mut counts.lost,
            Reason::Parameter => &mut counts.parameter,
            Reason::Cancelled => &mut counts.cancelled,
            Reason::DeadlinePassed => &mut counts.deadline_passed,
        };
        *count += 1;
    }

    /// Returns the current counts.
    pub fn snapshot(&self) -> FaultCounts {
        *lock(&self.0)
    }
}

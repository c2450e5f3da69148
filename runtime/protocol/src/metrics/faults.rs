//! Failed tasks by reason, counted on the thread where they fail.

use millstream_sync::facade::Statistic;

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
    pub fn by_reason(&self) -> [(&'static str, u64); REASONS] {
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

const REASONS: usize = 8;

/// Fault counts that any thread may increment.
#[derive(Default)]
pub struct SharedFaults([Statistic; REASONS]);

impl SharedFaults {
    /// Counts a task that failed for this reason.
    #[cold]
    pub fn count(&self, reason: &Reason) {
        let place = match reason {
            Reason::OutOfMemory { .. } => 0,
            Reason::Panicked(_) => 1,
            Reason::Input => 2,
            Reason::Refused(_) | Reason::Remote(_) => 3,
            // No metrics are requested of a closed device.
            Reason::Lost | Reason::Closed => 4,
            Reason::Parameter => 5,
            Reason::Cancelled => 6,
            Reason::DeadlinePassed => 7,
        };
        self.0[place].add(1);
    }

    /// Returns the current counts.
    pub fn snapshot(&self) -> FaultCounts {
        let [
            out_of_memory,
            panicked,
            input,
            refused,
            lost,
            parameter,
            cancelled,
            deadline_passed,
        ] = std::array::from_fn(|place| self.0[place].get());
        FaultCounts {
            out_of_memory,
            panicked,
            input,
            refused,
            lost,
            parameter,
            cancelled,
            deadline_passed,
        }
    }
}

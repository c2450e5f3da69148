//! How many tasks failed, by reason: told where they fail, on whichever thread that is.

use millstream_sync::facade::Figure;

use crate::failure::Reason;

/// Tasks that failed, by [`Reason`]; slices that got no memory are among them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct FaultCounts {
    /// The device had no memory.
    pub out_of_memory: u64,
    /// User code panicked.
    pub panicked: u64,
    /// What they read had failed before.
    pub input: u64,
    /// The device refused them.
    pub refused: u64,
    /// The device was lost.
    pub lost: u64,
    /// They were given a parameter of a recording outside of a replay.
    pub parameter: u64,
    /// They were cancelled before they were issued.
    pub cancelled: u64,
    /// Their deadline passed before they were issued.
    pub deadline_passed: u64,
}

impl FaultCounts {
    /// All of them, each with the name of its reason, as metrics are labelled with it.
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

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.by_reason().iter().map(|(_, count)| count).sum()
    }
}

const REASONS: usize = 8;

/// The same, counted by any thread.
#[derive(Default)]
pub struct SharedFaults([Figure; REASONS]);

impl SharedFaults {
    /// A task failed for this reason.
    #[cold]
    pub fn count(&self, reason: &Reason) {
        let place = match reason {
            Reason::OutOfMemory { .. } => 0,
            Reason::Panicked(_) => 1,
            Reason::Input => 2,
            Reason::Refused(_) => 3,
            // A closed device is not asked for metrics.
            Reason::Lost | Reason::Closed => 4,
            Reason::Parameter => 5,
            Reason::Cancelled => 6,
            Reason::DeadlinePassed => 7,
        };
        self.0[place].add(1);
    }

    /// How many there are by now.
    pub fn look(&self) -> FaultCounts {
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

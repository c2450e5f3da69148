//! The reasons for which a program ends before its last step.

/// Why a program ends early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The device is lost.
    Lost,
    /// An answer was wrong or missing. The tally has the details.
    Wrong,
}

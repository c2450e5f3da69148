//! A sample of a row: the function that takes it, and how much it does.

use std::error::Error;

/// Why there is no sample.
pub(super) type Why = Box<dyn Error + Send + Sync>;
/// Takes a sample.
pub(super) type Sample = Box<dyn FnMut() -> Result<f64, Why>>;

/// How much is done for one sample.
#[derive(Clone, Copy)]
pub(super) struct Load {
    /// Launches of all threads.
    pub(super) launches: usize,
    /// Calls that are waited for, one after the other.
    pub(super) waits: usize,
    /// Waits that begin with a pause.
    pub(super) pauses: usize,
}

impl Load {
    /// A sample takes some milliseconds; a quick one is for looking and not for quoting.
    pub(super) fn new(quick: bool) -> Self {
        match quick {
            true => Self {
                launches: 1_000,
                waits: 20,
                pauses: 2,
            },
            false => Self {
                launches: 20_000,
                waits: 500,
                pauses: 10,
            },
        }
    }
}

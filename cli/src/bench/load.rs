//! The function type that takes one sample of a row, and the amount of work per sample.

use std::error::Error;

/// The error of a row that cannot be measured.
pub(super) type SampleError = Box<dyn Error + Send + Sync>;
/// Takes one sample of a row.
pub(super) type Sample = Box<dyn FnMut() -> Result<f64, SampleError>>;

/// The amount of work in one sample.
#[derive(Clone, Copy)]
pub(super) struct Load {
    /// Launches of all threads together.
    pub(super) launches: usize,
    /// Consecutive calls that are each waited for.
    pub(super) waits: usize,
    /// Waits that each follow a pause.
    pub(super) pauses: usize,
}

impl Load {
    /// Returns a load of some milliseconds per sample. Figures of a quick load are too noisy to publish.
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

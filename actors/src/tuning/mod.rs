//! The clock ([`HostClock`]), the file store and the background thread of tuning.
//!
//! | file | contents |
//! | --- | --- |
//! | `file` | [`FileStore`]: stores choices in a file; [`stored_choices`] summarizes the stored files |
//! | `background` | [`Background`]: a thread that tunes in the background |

use std::time::{Duration, Instant};

use millstream_tune::{Failure, Measure};

mod background;
mod file;

pub use background::Background;
pub use file::{FileStore, StoredChoices, stored_choices};

// Measures work with the host's clock.

/// Measures work that is complete when it returns, with the host's monotonic clock.
#[derive(Debug, Default)]
pub struct HostClock {
    taken: Option<Duration>,
}

impl HostClock {
    /// Creates a clock.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Measure for HostClock {
    fn clock(&self) -> &str {
        "the host's clock"
    }

    fn start(&mut self, work: &mut dyn FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
        let start = Instant::now();
        work()?;
        self.taken = Some(start.elapsed());
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Duration>, Failure> {
        Ok(self.taken.take())
    }
}

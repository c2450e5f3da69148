//! Measures work with the host's clock.

use std::time::{Duration, Instant};

use millstream_tune::{Failure, Measure};

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

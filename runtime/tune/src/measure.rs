//! The interface for measuring candidates.

use std::time::Duration;

use crate::error::Failure;

/// Measures the work that candidates submit to a device, one candidate at a time.
///
/// A tuner takes one sample at a time: [`Measure::start`] runs the candidate, which submits its work to the device,
/// and [`Measure::poll`] returns the time once the work has completed, so that a driven device can be pumped between
/// the two. The times should be of the device's own clock if it has one.
pub trait Measure {
    /// Returns the name of the clock, for reports.
    fn clock(&self) -> &str;

    /// Runs `work`, and starts to measure what it submits to the device.
    ///
    /// # Errors
    /// The error of `work`, or the reason why the time cannot be measured.
    fn start(&mut self, work: &mut dyn FnMut() -> Result<(), Failure>) -> Result<(), Failure>;

    /// Returns the time of the started work if it has completed.
    ///
    /// # Errors
    /// The failure of the work on the device.
    fn poll(&mut self) -> Result<Option<Duration>, Failure>;

    /// Waits for the time of the started work. The default does not wait: it is for measures that know the time when
    /// `start` returns.
    ///
    /// # Errors
    /// As for [`Measure::poll`]; also if no work was started.
    fn wait(&mut self) -> Result<Duration, Failure> {
        let known = self.poll()?;
        known.ok_or_else(|| {
            Failure::new(
                "no measurement is in progress, or it has not completed and cannot be waited for",
            )
        })
    }

    /// Replaces the contents of the device's caches, so that each sample starts in the same state. Does nothing by
    /// default.
    ///
    /// # Errors
    /// The error of the device.
    fn evict(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

//! How the time of something is taken.

use std::time::Duration;

use crate::error::Failure;

/// Takes the times of what candidates give to a device, one after the other.
///
/// A tuner asks for one sample at a time: [`Measure::start`] runs the candidate, which gives its work to the device, and
/// [`Measure::poll`] answers how long that took once it is over, so that a driven device is pumped between the two. Times should be those of the device's
/// own clock where it has one.
pub trait Measure {
    /// Whose clock it is, for reports.
    fn clock(&self) -> &str;

    /// Runs `work`, and takes the time of what it gives to the device.
    ///
    /// # Errors
    /// Those of `work`, and that the time cannot be taken.
    fn start(&mut self, work: &mut dyn FnMut() -> Result<(), Failure>) -> Result<(), Failure>;

    /// How long the work that was started took, if it is over.
    ///
    /// # Errors
    /// The device's, of that work.
    fn poll(&mut self) -> Result<Option<Duration>, Failure>;

    /// The same, waiting until it is over. By default it does not: that is for measures that know when `start` returns.
    ///
    /// # Errors
    /// As of [`Measure::poll`]; and that nothing was started.
    fn wait(&mut self) -> Result<Duration, Failure> {
        let known = self.poll()?;
        known.ok_or_else(|| {
            Failure::new("nothing is being measured, or it is not over and cannot be waited for")
        })
    }

    /// Puts other data into the device's caches than those that the last sample left there, so that each sample begins alike. Nothing, by default.
    ///
    /// # Errors
    /// The device's.
    fn evict(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

//! The swarm: random programs of the testkit on the simulator.
//!
//! A [`Case`] is a seed and a list of step numbers. The seed determines how the device is opened (queues, strategy,
//! limits, memory, faults, the device's own seed) and what each step does. A step depends only on the seed and its
//! number, so a failing case can be reduced by removing steps without changing the others.
//!
//! | module | contents |
//! | --- | --- |
//! | `setting` | the options of the device |
//! | `old_objects` | objects of an earlier epoch, which must return `DeviceLost` |
//! | `case` | running a case, and reducing a failing one |
//! | `fairness` | the latency of a small client beside a greedy one |
//!
//! Everything runs on the calling thread, on a driven simulator: the same case gives the same run.

mod case;
pub mod fairness;
mod old_objects;
mod setting;

pub use case::{Case, Figures, Verdict};
pub use setting::Fault;

/// The maximum of `--minutes`: a week.
const MINUTES_MAX: f64 = 7.0 * 24.0 * 60.0;

/// Parses the argument `--minutes` of the programs.
///
/// # Errors
/// A message that says what it must be.
pub fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if minutes > 0.0 && minutes <= MINUTES_MAX => Ok(minutes),
        Ok(_) => Err(format!("must be more than 0 and at most {MINUTES_MAX}")),
        Err(error) => Err(error.to_string()),
    }
}

//! How much of the exchange's time the interior hides.
//!
//! Three programs run in turn: the steps as they are, their launches alone, and their exchanges alone, each of which
//! waits for the one before. If the exchange were hidden entirely, the steps would take as long as their launches; if
//! not at all, as long as both together.

use std::time::Instant;

use millstream_cluster::Group;
use millstream_harness::median;

use super::{Domain, Failure, Reaction, Tasks};

/// The median times of one step on this process, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overlap {
    pub(crate) steps: f64,
    pub(crate) launches: f64,
    pub(crate) exchange: f64,
}

impl Overlap {
    /// Returns the share of the exchange's time that is not added to the time of the launches: 1 if all of it is
    /// hidden, negative if the exchange costs more beside the launches than alone.
    pub(crate) fn hidden(&self) -> f64 {
        1.0 - (self.steps - self.launches) / self.exchange
    }
}

/// Measures the three programs in turn, `rounds` times each, after a round that is not counted. Every rank makes the
/// same call.
///
/// # Errors
/// The failure of a step on any rank.
pub(crate) fn measure(
    group: &Group,
    domain: Domain,
    steps: usize,
    rounds: usize,
) -> Result<Overlap, Failure> {
    const PROGRAMS: [Tasks; 3] = [Tasks::Step, Tasks::Launches, Tasks::Exchange];
    let mut reaction = Reaction::new(group, domain)?;
    let mut samples: [Vec<f64>; 3] = Default::default();
    for round in 0..=rounds {
        for turn in 0..PROGRAMS.len() {
            // Each program comes first equally often.
            let program = (turn + round) % PROGRAMS.len();
            // The exchange before the clock starts is the barrier of the ranks, for all programs the same.
            reaction.submit(Tasks::Exchange, 2)?;
            reaction.mark()?.wait()?;
            let start = Instant::now();
            reaction.submit(PROGRAMS[program], steps)?;
            reaction.mark()?.wait()?;
            if round > 0 {
                samples[program].push(start.elapsed().as_secs_f64() * 1e6 / steps as f64);
            }
        }
    }
    let [steps, launches, exchange] = samples.map(|samples| median(&samples));
    Ok(Overlap {
        steps,
        launches,
        exchange,
    })
}

//! How much of the exchange's time the interior hides.
//!
//! Three programs run in turn: the steps as they are, their launches alone, and their exchanges alone, each of which
//! waits for the one before. If the exchange were hidden entirely, the steps would take as long as their launches; if
//! not at all, as long as both together.
//!
//! Beside these times, which any other program on the same cores disturbs, the devices' timelines show how long each
//! step waited for its halos after its interior.
//!
//! An exchange is started by the threads of the devices, which need a core for a few microseconds while the interiors
//! run. If the workers of the queues keep all cores busy, Linux (since 6.6) lets each finish its time slice of some
//! milliseconds before a thread that has woken runs, and an exchange starts only where its interior ends. So leave the
//! runtime a core, or give the workers a scheduling class that others preempt (`chrt --idle`).

use std::time::Instant;

use millstream::{Device, report::TraceSpan};
use millstream_cluster::Group;
use millstream_harness::quantile;

use super::member::LAUNCHES;
use super::{Domain, Failure, Reaction, Tasks, equations};

/// The times of one step of the three programs on this process, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub steps: f64,
    pub launches: f64,
    pub exchange: f64,
    /// From the end of a step's interior to the start of its edge rows, by the timeline. It holds what the exchange
    /// took longer than the interior, and what the neighbours are behind. NaN if no strip has an interior.
    pub wait: f64,
}

impl Times {
    /// Returns the share of the exchange's time in which no device waited for it.
    pub fn hidden_by_timeline(&self) -> f64 {
        1.0 - self.wait / self.exchange
    }

    /// Returns the share of the exchange's time that is not added to the time of the launches: 1 if all of it is
    /// hidden, negative if the exchange costs more beside the launches than alone.
    pub fn hidden(&self) -> f64 {
        1.0 - (self.steps - self.launches) / self.exchange
    }
}

/// The spans for which devices must be opened with [`DeviceOptions::trace`](millstream::DeviceOptions::trace).
pub const SPANS: usize = 1 << 16;

/// Returns how long each step waited between its interior and its edge rows, in microseconds.
fn waits_for_halos(spans: &[TraceSpan]) -> impl Iterator<Item = f64> {
    let launches = spans.iter().filter(|span| *span.name == *equations::NAME);
    let mut launches: Vec<&TraceSpan> = launches.collect();
    launches.sort_by_key(|span| (span.queue, span.cursor));
    let steps: Vec<f64> = launches
        .chunks_exact(LAUNCHES)
        .map(|step| step[1].start_ns.saturating_sub(step[0].end_ns) as f64 / 1e3)
        .collect();
    steps.into_iter()
}

/// What has been measured.
#[derive(Clone, Copy, Debug)]
pub struct Overlap {
    pub median: Times,
    /// The fastest tenth: beside other programs on the same cores, the samples that were disturbed least.
    pub fast: Times,
    /// The share of the steps whose wait was at most a fifth of the median exchange: of which at least 80 % was hidden.
    pub mostly_hidden: f64,
}

/// Measures the three programs in turn, `rounds` times each, after a round that is not counted. Every rank makes the
/// same call. `devices` are those of this process, opened with [`SPANS`].
///
/// # Errors
/// The failure of a step on any rank.
pub fn measure(
    (group, devices): (&Group, &[Device]),
    domain: Domain,
    steps: usize,
    rounds: usize,
) -> Result<Overlap, Failure> {
    const PROGRAMS: [Tasks; 3] = [Tasks::Step, Tasks::Launches, Tasks::Exchange];
    let mut reaction = Reaction::new(group, domain)?;
    let mut samples: [Vec<f64>; 3] = Default::default();
    let mut waits = Vec::new();
    for round in 0..=rounds {
        for turn in 0..PROGRAMS.len() {
            // Each program comes first equally often.
            let program = (turn + round) % PROGRAMS.len();
            // The exchange before the clock starts is the barrier of the ranks, for all programs the same.
            reaction.submit(Tasks::Exchange, 2)?;
            reaction.mark().wait()?;
            for device in devices {
                device.trace()?;
            }
            let start = Instant::now();
            reaction.submit(PROGRAMS[program], steps)?;
            reaction.mark().wait()?;
            let seconds = start.elapsed().as_secs_f64();
            if round == 0 {
                continue;
            }
            samples[program].push(seconds * 1e6 / steps as f64);
            if PROGRAMS[program] == Tasks::Step {
                for device in devices {
                    waits.extend(waits_for_halos(&device.trace()?));
                }
            }
        }
    }
    let at = |share: f64| {
        let [steps, launches, exchange] = [0, 1, 2].map(|it| quantile(&samples[it], share));
        Times {
            steps,
            launches,
            exchange,
            wait: quantile(&waits, share),
        }
    };
    let (median, fast) = (at(0.5), at(0.1));
    let mostly_hidden = waits.iter().filter(|wait| **wait <= 0.2 * median.exchange);
    Ok(Overlap {
        median,
        fast,
        mostly_hidden: mostly_hidden.count() as f64 / waits.len() as f64,
    })
}

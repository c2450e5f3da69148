//! The measurements, written once for both sides over [`Contender`](crate::contender::Contender).
//!
//! A measurement runs in its own process and returns named figures. Its loops are calibrated by
//! time, not by count, because the sides differ by a factor of up to a thousand.
//!
//! - [`launch`]: submission. [`answer`]: waiting for the device, and for a start.
//! - [`upkeep`]: processor time while little or nothing happens. [`buffers`]: memory.
//! - [`instructions`]: batches between callgrind's requests.

pub(crate) mod answer;
pub(crate) mod buffers;
pub(crate) mod instructions;
pub(crate) mod launch;
pub(crate) mod upkeep;

use std::convert::Infallible;
use std::time::{Duration, Instant};

use millstream_harness::{median, runs_to_fill};

/// Named results of one sample.
pub(crate) type Figures = Vec<(&'static str, f64)>;

/// The least number of repetitions in a timed part: enough that the clock and one answer are negligible.
const LEAST: u64 = 64;

/// The size of a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Whether to take a tenth of the repetitions.
    pub(crate) quick: bool,
    /// Whether to run the longer of the two batches that [`instructions`] compares.
    pub(crate) long_batches: bool,
}

impl Effort {
    /// Returns how often a part is repeated; the figure is the median.
    pub(crate) fn repeats(self) -> usize {
        if self.quick { 3 } else { 9 }
    }

    /// Returns the time of one part.
    pub(crate) fn part(self) -> Duration {
        Duration::from_millis(if self.quick { 5 } else { 25 })
    }

    /// Returns `full`, or a tenth of it for a quick sample.
    pub(crate) fn count(self, full: usize) -> usize {
        if self.quick { full.div_ceil(10) } else { full }
    }
}

/// Returns the `count` with which `work(count)` fills a part; at least `least`. Also warms `work` up.
pub(crate) fn calibrate(effort: Effort, least: u64, mut work: impl FnMut(u64)) -> u64 {
    let work = |count| {
        work(count);
        Ok::<_, Infallible>(())
    };
    let Ok(count) = runs_to_fill(effort.part(), least..=u64::MAX, work);
    count
}

/// Returns how long `work` takes.
pub(crate) fn took(work: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    work();
    begin.elapsed()
}

/// Returns the nanoseconds of each of the `count` repetitions in `work(count)`, as the median of the parts.
pub(crate) fn timed(effort: Effort, mut work: impl FnMut(u64)) -> f64 {
    let count = calibrate(effort, LEAST, &mut work);
    let parts: Vec<f64> = (0..effort.repeats())
        .map(|_| took(|| work(count)).as_nanos() as f64 / count as f64)
        .collect();
    median(&parts)
}

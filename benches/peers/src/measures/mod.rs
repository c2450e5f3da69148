//! What is measured, written once for both sides over [`Contender`](crate::contender::Contender).
//!
//! A measure runs in a process of its own and returns named figures. Its loops are calibrated by
//! time, not by count, since the sides differ by up to a thousand.
//!
//! - [`launch`]: submitting. [`answer`]: waiting for the device, and for it to start.
//! - [`upkeep`]: what running costs while little or nothing happens. [`buffers`]: memory.
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

/// Launches that a measure tries while a consumer's event is held.
pub(crate) const HOLD_LIMIT: u64 = 10_000;

/// How often a buffer is written by one stream and read by another.
pub(crate) const STALE_TRIALS: u64 = 20;

/// The fewest things in a timed part: enough that the clock and one answer do not show.
const LEAST: u64 = 64;

/// How long a count may stand still before it is taken as final.
const STANDSTILL: Duration = Duration::from_millis(500);

/// How often a watched count is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// How much a sample may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// A tenth of everything.
    pub(crate) quick: bool,
    /// The longer of the two batches that [`instructions`] compares.
    pub(crate) long_batches: bool,
}

impl Effort {
    /// How often a part is repeated, whose median counts.
    pub(crate) fn repeats(self) -> usize {
        if self.quick { 3 } else { 9 }
    }

    /// How long one part takes.
    pub(crate) fn part(self) -> Duration {
        Duration::from_millis(if self.quick { 5 } else { 25 })
    }

    /// `full` events, or a tenth of them.
    pub(crate) fn count(self, full: usize) -> usize {
        if self.quick { full.div_ceil(10) } else { full }
    }
}

/// How many times `work(count)` must be told to do its thing to fill a part, and `least` times at
/// least. Warms it up as well.
pub(crate) fn calibrate(effort: Effort, least: u64, mut work: impl FnMut(u64)) -> u64 {
    let work = |count| {
        work(count);
        Ok::<_, Infallible>(())
    };
    let Ok(count) = runs_to_fill(effort.part(), least..=u64::MAX, work);
    count
}

/// How long `work` takes.
pub(crate) fn took(work: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    work();
    begin.elapsed()
}

/// Nanoseconds for each of the `count` things that `work(count)` does: the median part.
pub(crate) fn timed(effort: Effort, mut work: impl FnMut(u64)) -> f64 {
    let count = calibrate(effort, LEAST, &mut work);
    let parts: Vec<f64> = (0..effort.repeats())
        .map(|_| took(|| work(count)).as_nanos() as f64 / count as f64)
        .collect();
    median(&parts)
}

/// The count that `look` settles at: it has reached [`HOLD_LIMIT`] or stands still.
pub(crate) fn settled(look: impl Fn() -> u64) -> u64 {
    let (mut last, mut since) = (look(), Instant::now());
    while last < HOLD_LIMIT && since.elapsed() < STANDSTILL {
        std::thread::sleep(LOOK);
        let now = look();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    last
}

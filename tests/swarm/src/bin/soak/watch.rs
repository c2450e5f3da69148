//! Samples memory and rate each second, and updates the progress bar.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use millstream_testkit::{Count, Tally};

use crate::system;
use crate::verdict::Sample;

/// The time between samples.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// The most samples that are kept: those of one day. A longer soak judges only its first day.
const SAMPLES_MAX: usize = 86_400;

pub(crate) struct Watch {
    bar: ProgressBar,
    began: Instant,
    last: (Instant, u64),
    samples: Vec<Sample>,
}

impl Watch {
    /// Starts the watch over a soak of `seconds`, or over one that ends after its rounds if `None`.
    pub(crate) fn new(seconds: Option<u64>) -> Self {
        let bar = seconds.map_or_else(ProgressBar::no_length, ProgressBar::new);
        let style = ProgressStyle::with_template("{bar:40} {elapsed} of {len} s  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let now = Instant::now();
        Self {
            bar,
            began: now,
            last: (now, 0),
            // Allocated in full, so that samples do not count as growth of memory.
            samples: Vec::with_capacity(SAMPLES_MAX),
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Takes a sample.
    pub(crate) fn sample(&mut self, tally: &Tally) {
        let (now, steps) = (Instant::now(), tally.get(Count::Steps));
        let seconds = now.duration_since(self.last.0).as_secs_f64().max(1e-6);
        let sample = Sample {
            second: self.began.elapsed().as_secs_f64(),
            resident_bytes: system::resident_bytes().unwrap_or(0),
            steps_per_second: (steps - self.last.1) as f64 / seconds,
        };
        self.last = (now, steps);
        if self.samples.len() < SAMPLES_MAX {
            self.samples.push(sample);
        }
        self.bar.set_position(sample.second as u64);
        self.bar.set_message(format!(
            "{:.0} steps/s, {} MiB, {} violations",
            sample.steps_per_second,
            sample.resident_bytes >> 20,
            tally.violation_count(),
        ));
    }

    /// Removes the progress bar and returns the samples.
    pub(crate) fn finish(self) -> Vec<Sample> {
        self.bar.finish_and_clear();
        self.samples
    }
}

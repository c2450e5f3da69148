//! The second hand of a soak: samples memory and rate, and moves the bar.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use millstream_testkit::{Count, Tally};

use super::system;
use super::verdict::Sample;
use crate::demo::{bytes, counted};

const TEMPLATE: &str = "  {bar:24.cyan/black.bright} {elapsed:>4} of {len}s  {msg}";

/// How often is sampled.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// Samples that are kept: a day's. A longer soak judges its first day.
const SAMPLES_MAX: usize = 86_400;

pub(crate) struct Watch {
    bar: ProgressBar,
    began: Instant,
    last: (Instant, u64),
    samples: Vec<Sample>,
}

impl Watch {
    /// A watch over a soak of so many seconds; `None` where work ends it.
    pub(crate) fn new(seconds: Option<u64>) -> Self {
        let target = match stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(seconds, target);
        // A template of our own that did not parse would leave the plain bar: good enough.
        let style =
            ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("━━╌"));
        let now = Instant::now();
        Self {
            bar,
            began: now,
            last: (now, 0),
            // Made at once, so that the samples themselves are no growth.
            samples: Vec::with_capacity(SAMPLES_MAX),
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Takes a sample.
    pub(crate) fn sample(&mut self, tally: &Tally, epochs: u64) {
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
        let violations = tally.violations() as usize;
        self.bar.set_message(format!(
            "{:.0} steps/s · {} clients · {} answers · {} · {} · {}",
            sample.steps_per_second,
            tally.get(Count::Clients),
            tally.get(Count::Answered),
            bytes(sample.resident_bytes),
            counted(epochs as usize, "lost device"),
            counted(violations, "violation"),
        ));
    }

    /// The samples, once the bar is gone.
    pub(crate) fn finish(self) -> Vec<Sample> {
        self.bar.finish_and_clear();
        self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_parses() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }
}

//! Times per run, and how many runs fill a sample.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// A sample is long enough to tell how many runs are needed if it takes at least this part of what is wanted.
const TELLING_PART: u32 = 4;

/// Nanoseconds since `begun` for each of `count` runs.
pub fn ns_each(begun: Instant, count: usize) -> f64 {
    begun.elapsed().as_nanos() as f64 / count.max(1) as f64
}

/// Nanoseconds of each of `count` runs of `work`, which gets the run's index. `done` waits, within the time, for what they began.
///
/// # Errors
///
/// The first error of `work` or `done`.
pub fn time_each<E>(
    count: usize,
    work: impl FnMut(usize) -> Result<(), E>,
    done: impl FnOnce() -> Result<(), E>,
) -> Result<f64, E> {
    let begun = Instant::now();
    (0..count).try_for_each(work)?;
    done()?;
    Ok(ns_each(begun, count))
}

/// How many runs take `sample` together, within `counts`. `work(count)` does that many runs; calling it warms it up as well.
///
/// # Errors
///
/// The first error of `work`.
pub fn runs_to_fill<E>(
    sample: Duration,
    counts: RangeInclusive<u64>,
    mut work: impl FnMut(u64) -> Result<(), E>,
) -> Result<u64, E> {
    let (least, most) = counts.into_inner();
    let mut took = |count| {
        let begun = Instant::now();
        work(count).map(|()| begun.elapsed())
    };
    let mut count = least.max(1);
    loop {
        // The faster of two, so that one stall of the machine does not end the search too early.
        let spent = took(count)?.min(took(count)?);
        if spent >= sample / TELLING_PART || count >= most {
            return Ok(runs_in(sample, count, spent).clamp(least, most));
        }
        count = count.saturating_mul(2).min(most);
    }
}

/// How many runs take `sample`, if `count` take `spent`. If those took no time at all, as many as there are, or 0 for no sample.
fn runs_in(sample: Duration, count: u64, spent: Duration) -> u64 {
    (count as f64 * sample.as_secs_f64() / spent.as_secs_f64()) as u64
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn what_is_waited_for_is_timed_as_well() {
        let (mut runs, pause) = (Vec::new(), Duration::from_millis(8));
        let run = |index| {
            runs.push(index);
            Ok::<_, Infallible>(())
        };
        let wait = || {
            std::thread::sleep(pause);
            Ok(())
        };
        let ns = time_each(4, run, wait).unwrap();
        assert!(ns >= 2e6, "{ns}");
        assert_eq!(runs, [0, 1, 2, 3]);
    }

    #[test]
    fn runs_fill_the_sample() {
        let ms = Duration::from_millis;
        assert_eq!(runs_in(ms(20), 5, ms(10)), 10);
        assert_eq!(runs_in(ms(20), 5, Duration::ZERO), u64::MAX);
        assert_eq!(runs_in(Duration::ZERO, 5, Duration::ZERO), 0);
        let sleep = |count| {
            std::thread::sleep(ms(count));
            Ok::<_, Infallible>(())
        };
        // A sleep may take longer than asked, not less.
        let runs = runs_to_fill(ms(20), 1..=1000, sleep).unwrap();
        assert!((1..=20).contains(&runs), "{runs}");
    }

    #[test]
    fn runs_stay_within_their_bounds() {
        let nothing = |_| Ok::<_, Infallible>(());
        let of = |sample, counts| runs_to_fill(sample, counts, nothing).unwrap();
        assert_eq!(of(Duration::ZERO, 3..=10), 3);
        assert_eq!(of(Duration::from_secs(1), 1..=10), 10);
    }

    #[test]
    fn an_error_ends_the_search() {
        let end = runs_to_fill(Duration::from_secs(1), 1..=10, Err);
        assert_eq!(end, Err(1));
    }
}

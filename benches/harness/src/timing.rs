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
    fill(sample, counts, |count| {
        let begun = Instant::now();
        work(count).map(|()| begun.elapsed())
    })
}

/// The search itself: `took(count)` is how long that many runs took.
fn fill<E>(
    sample: Duration,
    counts: RangeInclusive<u64>,
    mut took: impl FnMut(u64) -> Result<Duration, E>,
) -> Result<u64, E> {
    let (least, most) = counts.into_inner();
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
    use std::cell::RefCell;
    use std::convert::Infallible;

    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn done_comes_after_all_runs() {
        let order = RefCell::new(Vec::new());
        let run = |index| {
            order.borrow_mut().push(index);
            Ok::<_, Infallible>(())
        };
        let wait = || {
            order.borrow_mut().push(99);
            Ok(())
        };
        let ns = time_each(4, run, wait).unwrap();
        assert!(ns >= 0.0, "{ns}");
        assert_eq!(*order.borrow(), [0, 1, 2, 3, 99]);
    }

    #[test]
    fn runs_in_a_sample_are_counted_by_the_time_of_some() {
        assert_eq!(runs_in(MS(20), 5, MS(10)), 10);
        assert_eq!(runs_in(MS(20), 5, Duration::ZERO), u64::MAX);
        assert_eq!(runs_in(Duration::ZERO, 5, Duration::ZERO), 0);
    }

    #[test]
    fn search_doubles_until_a_sample_is_long_enough() {
        let mut tried = Vec::new();
        let runs = fill(MS(20), 1..=1000, |count| {
            tried.push(count);
            Ok::<_, Infallible>(MS(count))
        });
        assert_eq!((runs, tried), (Ok(20), vec![1, 1, 2, 2, 4, 4, 8, 8]));
    }

    #[test]
    fn one_stall_does_not_end_the_search() {
        let mut calls = 0;
        let runs = fill(MS(20), 1..=1000, |count| {
            calls += 1;
            Ok::<_, Infallible>(MS(if calls == 1 { 500 } else { count }))
        });
        assert_eq!(runs, Ok(20));
    }

    #[test]
    fn runs_stay_within_their_bounds() {
        let nothing = |_| Ok::<_, Infallible>(Duration::ZERO);
        let of = |sample, counts| fill(sample, counts, nothing).unwrap();
        assert_eq!(of(Duration::ZERO, 3..=10), 3);
        assert_eq!(of(MS(1000), 1..=10), 10);
    }

    #[test]
    fn an_error_ends_the_search() {
        let end = runs_to_fill(MS(1000), 1..=10, Err);
        assert_eq!(end, Err(1));
    }
}

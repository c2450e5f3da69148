//! The quality of the choice under noise.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use millstream_tune::{Effort, Failure, Measure, Policy, SAMPLES_MAX, Tuner};
use rstest::rstest;

use crate::support::{Rig, choose};

/// At least 95 of 100 tunings choose a candidate within 3 % of the best, with noise of up to 15 % and one in twenty
/// samples interrupted.
#[rstest]
fn choice_is_within_three_percent_of_the_best(
    #[values(
        &[100_000, 102_000, 110_000, 150_000, 400_000],
        &[200_000, 104_000, 100_000],
        &[100_000, 101_000, 102_000, 103_500, 105_000, 106_000, 108_000, 110_000]
    )]
    times: &[u64],
    #[values(0.01, 0.05, 0.15)] noise: f64,
) {
    let best = times.iter().min().copied().unwrap();
    let within = |seed: &u64| {
        let chosen = Rig::noisy(times, *seed, noise).choose(Policy::Wait);
        times[chosen.unwrap().index] as f64 <= best as f64 * 1.03
    };
    let right = (0..100).filter(within).count();
    assert!(right >= 95, "{right} of 100 were within 3 % of the best");
}

/// A hopeless candidate is eliminated early: most samples are of candidates that are close to each other.
#[test]
fn hopeless_candidate_is_measured_only_a_few_times() {
    let mut rig = Rig::noisy(&[100_000, 100_500, 900_000], 3, 0.1);
    rig.choose(Policy::Wait).unwrap();
    let outcome = rig.tuner.outcome(&1).unwrap();
    let samples = |index: usize| {
        let of = outcome
            .candidates
            .iter()
            .find(|candidate| candidate.index == index);
        of.unwrap().result.as_ref().unwrap().samples
    };
    assert!(samples(2) <= 10, "{} samples", samples(2));
    assert!(samples(0) > 4 * samples(2) && samples(1) > 4 * samples(2));
}

/// Times without noise are distinguished with the minimum of samples that the confidence needs.
#[test]
fn quiet_machine_needs_few_samples() {
    let mut rig = Rig::new(&[500, 400]);
    assert_eq!(rig.choose(Policy::Wait).unwrap().index, 1);
    let (outcome, best) = (rig.tuner.outcome(&1).unwrap(), rig.best());
    assert!(best.samples <= 8, "{best:?}");
    assert_eq!(
        (best.median, best.mean, best.min, best.max, best.variance),
        (400.0, 400.0, 400.0, 400.0, 0.0)
    );
    assert_eq!(
        (outcome.clock.as_str(), outcome.confidence),
        ("a virtual clock", 0.95)
    );
}

/// I7: if all faster candidates fail later, the candidates that were eliminated against them race again.
#[test]
fn eliminated_candidate_is_chosen_if_all_faster_ones_fail_later_i7() {
    let mut rig = Rig::noisy(&[100_000, 100_500, 900_000], 3, 0.1);
    let left = AtomicU32::new(60);
    rig.set = rig.set.settled(move |place: &usize| {
        let one_less = |left: u32| left.checked_sub(1);
        let order = Ordering::Relaxed;
        match *place < 2 && left.fetch_update(order, order, one_less).is_err() {
            true => Err("it is too hot"),
            false => Ok(()),
        }
    });
    assert_eq!(rig.choose(Policy::Wait).unwrap().index, 2);
    let outcome = rig.tuner.outcome(&1).unwrap();
    let failed = outcome.candidates.iter().filter(|one| one.result.is_err());
    assert_eq!(failed.count(), 2);
}

/// With more samples the arithmetic of the intervals would underflow, and any difference would seem certain.
#[test]
fn equal_candidates_never_give_confidence() {
    let mut rig = Rig::noisy(&[100_000, 100_000], 1, 0.1);
    let effort = Effort::default().samples(u32::MAX).tolerance(0.0);
    rig.tuner = Tuner::with_effort(effort.budget(Duration::MAX));
    rig.choose(Policy::Wait).unwrap();
    let confidence = rig.tuner.outcome(&1).unwrap().confidence;
    assert_eq!(confidence, 0.0, "both are equally fast");
    assert_eq!(rig.best().samples, SAMPLES_MAX);
}

#[test]
fn effort_ignores_nan() {
    let effort = Effort::default().confidence(f64::NAN).tolerance(f64::NAN);
    assert_eq!(effort, Effort::default());
}

/// A broken clock, whose every sample takes the maximum duration.
struct MaxDuration;

impl Measure for MaxDuration {
    fn clock(&self) -> &str {
        "a broken clock"
    }

    fn start(&mut self, work: &mut dyn FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
        work()
    }

    fn poll(&mut self) -> Result<Option<Duration>, Failure> {
        Ok(Some(Duration::MAX))
    }
}

#[test]
fn excessive_times_are_saturated() {
    let rig = Rig::new(&[1, 2]);
    choose(&rig.tuner, &rig.set, &mut MaxDuration);
    assert_eq!(rig.best().median, u64::MAX as f64);
}

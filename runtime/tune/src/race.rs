//! A race of candidates, one sample at a time.
//!
//! ```text
//!            first run works         median interval above the leader's
//!   New ──────────────────► Racing ──────────────────────────────────► Out
//!    │ error, panic           │  ▲                                      │
//!    └──────► Failed ◄────────┘  └── all racing candidates have failed ─┘
//! ```
//! 1. Each candidate runs once without being timed, which warms caches and finds candidates that do not work.
//! 2. Then the candidates are measured in turn, so that a machine that becomes slower does so for all of them. After
//!    each round a candidate is eliminated (`Out`) if its interval of the median lies above that of the leader.
//! 3. The race ends when it is certain, with the requested confidence, that no other candidate is faster than the
//!    leader by more than the tolerance, or when the samples or the time run out.
//!
//! Usual tuners run each candidate a fixed number of times, one candidate after the other, and take the least mean.
//! Then the last one pays for a machine that throttles, and one interruption shifts a mean. The intervals of medians
//! assume no distribution (the sign test, `stats`), at the price of six samples for 95 %. One sample at a time is also
//! what a driven device can do between two pumps. A sample is a single run, so noise decides between candidates that
//! take less than the resolution of the clock.
//!
//! `tests/tune/noise.rs` checks the choice under noise.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use millstream_sync::payload::panic_message;

use crate::choice::{Candidate, Outcome};
use crate::error::Failure;
use crate::measure::Measure;
use crate::set::TunableSet;
use crate::stats::{Summary, median, median_interval};

/// The effort of measuring.
///
/// ```
/// use std::time::Duration;
/// use millstream_tune::Effort;
///
/// let quick = Effort::default().samples(20).budget(Duration::from_millis(20));
/// assert!(quick.confidence(0.9) != Effort::default());
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Effort {
    samples: u32,
    budget: Duration,
    tolerance: f64,
    confidence: f64,
}

impl Default for Effort {
    /// At most 400 samples per candidate and half a second of measured time; with a confidence of 95 % the winner is
    /// within 3 % of the best.
    fn default() -> Self {
        Self {
            samples: 400,
            budget: Duration::from_millis(500),
            tolerance: 0.03,
            confidence: 0.95,
        }
    }
}

impl Effort {
    /// Sets the maximum number of samples per candidate, from 1 to [`SAMPLES_MAX`].
    #[must_use]
    pub fn samples(mut self, samples: u32) -> Self {
        self.samples = samples.clamp(1, SAMPLES_MAX);
        self
    }

    /// Sets the maximum measured time of all candidates together. Each is measured at least [`SAMPLES_MIN`] times in
    /// any case.
    #[must_use]
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = budget;
        self
    }

    /// Sets by how much the winner may be slower than the best, as a fraction from 0 to 1. A NaN is ignored.
    #[must_use]
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        if !tolerance.is_nan() {
            self.tolerance = tolerance.clamp(0.0, 1.0);
        }
        self
    }

    /// Sets the confidence of the result, from 0.5 to 0.9999. A NaN is ignored.
    #[must_use]
    pub fn confidence(mut self, confidence: f64) -> Self {
        if !confidence.is_nan() {
            self.confidence = confidence.clamp(0.5, 0.9999);
        }
        self
    }
}

/// The minimum number of samples per candidate, whatever they cost.
pub const SAMPLES_MIN: u32 = 3;

/// The maximum number of samples per candidate. The probability that all samples lie on one side of the median, 0.5
/// to the power of their number, must not underflow: at 1,075 it does.
pub const SAMPLES_MAX: u32 = 1_000;

/// A candidate in a race.
struct Racer {
    index: usize,
    /// Nanoseconds, ascending.
    samples: Vec<u64>,
    state: State,
}

#[derive(PartialEq)]
enum State {
    /// Not run yet.
    New,
    /// Measured in each round.
    Racing,
    /// Eliminated as too slow.
    Out,
    Failed(Failure),
}

/// The state of a race after a step.
pub(crate) enum Step {
    /// There is more to measure.
    Going,
    /// The current sample has not completed.
    Waiting,
    /// The race has ended: with the outcome, or with the failures of all candidates.
    Done(Result<Outcome, Vec<Candidate>>),
}

/// A race in progress.
pub(crate) struct Race<I, O> {
    inputs: I,
    effort: Effort,
    racers: Vec<Racer>,
    /// The index of the next racer in this round.
    turn: usize,
    measured: Duration,
    /// The racer whose sample is being measured, and its output.
    current: Option<(usize, O)>,
}

impl<I: Clone, O> Race<I, O> {
    pub(crate) fn new<K>(set: &TunableSet<K, I, O>, key: &K, inputs: &I, effort: Effort) -> Self {
        let racer = |index| Racer {
            index,
            samples: Vec::new(),
            state: State::New,
        };
        Self {
            inputs: (set.inputs)(key, inputs),
            effort,
            racers: (0..set.len()).map(racer).collect(),
            turn: 0,
            measured: Duration::ZERO,
            current: None,
        }
    }

    /// Advances the race by one sample, started or finished. With `wait` it waits for the current sample.
    pub(crate) fn step<K>(
        &mut self,
        set: &TunableSet<K, I, O>,
        measure: &mut dyn Measure,
        wait: bool,
    ) -> Step {
        if let Some((racer, output)) = self.current.take() {
            let polled = match wait {
                true => measure.wait().map(Some),
                false => measure.poll(),
            };
            let measured = match polled {
                Ok(None) => {
                    self.current = Some((racer, output));
                    return Step::Waiting;
                }
                Ok(Some(time)) => catch_panic(|| (set.validate)(&output).map(|()| time)),
                Err(why) => Err(why),
            };
            match measured {
                Ok(time) => self.record(racer, time),
                Err(why) => self.racers[racer].state = State::Failed(why),
            }
            return Step::Going;
        }
        let races = |racer: &Racer| matches!(racer.state, State::New | State::Racing);
        let next = self.racers[self.turn..].iter().position(races);
        let Some(next) = next.map(|next| self.turn + next) else {
            return self.end_round(set, measure);
        };
        self.turn = next + 1;
        self.start(set, measure, next);
        Step::Going
    }

    /// Runs a candidate. The next step takes its time.
    fn start<K>(&mut self, set: &TunableSet<K, I, O>, measure: &mut dyn Measure, racer: usize) {
        let run = &set.tunables[self.racers[racer].index].run;
        let inputs = self.inputs.clone();
        let (mut inputs, mut output) = (Some(inputs), None);
        let started = measure.evict().and_then(|()| {
            measure.start(&mut || {
                let inputs = inputs.take();
                let inputs = inputs
                    .ok_or_else(|| Failure::new("`Measure::start` ran the candidate twice"))?;
                output = Some(catch_panic(|| run(inputs))?);
                Ok(())
            })
        });
        let did_not_run = || Failure::new("`Measure::start` did not run the candidate");
        match started.and_then(|()| output.ok_or_else(did_not_run)) {
            Ok(output) => self.current = Some((racer, output)),
            Err(why) => self.racers[racer].state = State::Failed(why),
        }
    }

    fn record(&mut self, racer: usize, time: Duration) {
        let racer = &mut self.racers[racer];
        if racer.state == State::New {
            // The first run warms caches and lazy state, so its time is not used.
            racer.state = State::Racing;
            return;
        }
        self.measured = self.measured.saturating_add(time);
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let place = racer.samples.partition_point(|other| *other <= time);
        racer.samples.insert(place, time);
    }

    /// Ends a round: eliminates candidates, and ends the race if it is decided.
    fn end_round<K>(&mut self, set: &TunableSet<K, I, O>, measure: &mut dyn Measure) -> Step {
        self.turn = 0;
        let racing = |racer: &&Racer| racer.state == State::Racing;
        if self.leader().is_none() {
            // All racing candidates have failed, so those that were eliminated against them race again.
            for racer in &mut self.racers {
                if racer.state == State::Out {
                    racer.state = State::Racing;
                }
            }
        }
        let Some(leader) = self.leader() else {
            return Step::Done(Err(candidates(set, &mut self.racers)));
        };
        let is_only = self.racers.iter().filter(racing).count() == 1;
        let taken = self.racers[leader].samples.len() as u32;
        if taken == 0 {
            return Step::Going;
        }
        let is_certain = self.eliminate(leader);
        let spent = self.measured >= self.effort.budget;
        let enough = taken >= self.effort.samples || taken >= SAMPLES_MIN && spent;
        if !(is_certain || enough || is_only && taken >= SAMPLES_MIN) {
            return Step::Going;
        }
        let winner = self.racers[leader].index;
        let mut all = candidates(set, &mut self.racers);
        // Failed candidates come last.
        let time = |candidate: &Candidate| match &candidate.result {
            Ok(summary) => summary.median,
            Err(_) => f64::INFINITY,
        };
        all.sort_by(|one, other| time(one).total_cmp(&time(other)));
        Step::Done(Ok(Outcome {
            winner,
            clock: measure.clock().to_owned(),
            confidence: if is_certain {
                self.effort.confidence
            } else {
                0.0
            },
            candidates: all,
        }))
    }

    /// Returns the fastest candidate so far, of those that are still racing.
    fn leader(&self) -> Option<usize> {
        let racing = self.racers.iter().enumerate();
        let racing = racing.filter(|(_, racer)| racer.state == State::Racing);
        let time = |racer: &Racer| match racer.samples.as_slice() {
            [] => 0.0,
            samples => median(samples),
        };
        racing
            .min_by(|(_, one), (_, other)| time(one).total_cmp(&time(other)))
            .map(|(place, _)| place)
    }

    /// Eliminates candidates that are slower than the leader. Returns `true` if it is certain that no other candidate
    /// is faster than the leader by more than the tolerance.
    ///
    /// Each comparison uses two intervals, either of which may be wrong. So that all comparisons hold at once with the
    /// requested confidence, each interval gets an equal share of the error probability (Bonferroni).
    fn eliminate(&mut self, leader: usize) -> bool {
        let error = 1.0 - self.effort.confidence;
        let confidence = 1.0 - error / self.racers.len() as f64;
        let Some((_, leader_most)) = median_interval(&self.racers[leader].samples, confidence)
        else {
            return false;
        };
        let mut is_certain = true;
        for (place, racer) in self.racers.iter_mut().enumerate() {
            if place == leader || racer.state != State::Racing {
                continue;
            }
            let Some((least, _)) = median_interval(&racer.samples, confidence) else {
                return false;
            };
            if least > leader_most {
                racer.state = State::Out;
            }
            is_certain &= least * (1.0 + self.effort.tolerance) >= leader_most;
        }
        is_certain
    }
}

/// Converts racers to the candidates of an outcome.
fn candidates<K, I, O>(set: &TunableSet<K, I, O>, racers: &mut Vec<Racer>) -> Vec<Candidate> {
    let of = |racer: Racer| Candidate {
        name: set.tunables[racer.index].name.clone(),
        index: racer.index,
        result: match racer.state {
            State::Failed(why) => Err(why),
            _ if racer.samples.is_empty() => {
                Err(Failure::new("the race ended before it was measured"))
            }
            _ => Ok(Summary::of(&racer.samples)),
        },
    };
    std::mem::take(racers).into_iter().map(of).collect()
}

/// Runs `run`, and converts a panic to a failure.
pub(crate) fn catch_panic<T>(run: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|payload| Err(Failure::Panicked(panic_message(payload))))
}

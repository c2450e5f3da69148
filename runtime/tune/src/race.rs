//! A race of candidates, one sample at a time.
//!
//! Each is run once without its time being taken, which finds out those that do not work, and then in turn, so that a machine that becomes slower does so for
//! all of them. Whoever is slower than the best by more than chance explains is out early. The race ends when it is sure enough that the
//! leader is no more than the tolerance behind any other, or when the samples or the time run out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::error::Failure;
use crate::measure::Measure;
use crate::outcome::{Candidate, Outcome};
use crate::set::TunableSet;
use crate::stats::{Summary, median, median_interval};

/// How carefully candidates are measured.
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
    /// At most 400 samples a candidate and half a second of measured time; sure to 95 % that the winner is within 3 % of the best.
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
    /// Samples of each candidate, at most; at least one is taken, and no more than [`SAMPLES_MAX`].
    #[must_use]
    pub fn samples(mut self, samples: u32) -> Self {
        self.samples = samples.clamp(1, SAMPLES_MAX);
        self
    }

    /// Measured time of all candidates together, at most. Each is measured [`SAMPLES_MIN`] times all the same.
    #[must_use]
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = budget;
        self
    }

    /// How much slower than the best the winner may be, as a share: from 0 to 1. What is no number changes nothing.
    #[must_use]
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        if !tolerance.is_nan() {
            self.tolerance = tolerance.clamp(0.0, 1.0);
        }
        self
    }

    /// How sure that is to be: from 0.5 to 0.9999. What is no number changes nothing.
    #[must_use]
    pub fn confidence(mut self, confidence: f64) -> Self {
        if !confidence.is_nan() {
            self.confidence = confidence.clamp(0.5, 0.9999);
        }
        self
    }
}

/// Samples of each candidate, whatever they cost.
pub const SAMPLES_MIN: u32 = 3;

/// Samples of each candidate, whoever asks for more: the chance that all of so many lie on one side of the median is a number still, and half
/// to the power of 1,075 is none.
pub const SAMPLES_MAX: u32 = 1_000;

/// One that takes part.
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
    Racing,
    /// Too slow.
    Out,
    Failed(Failure),
}

/// What is being measured.
struct Flight<O> {
    racer: usize,
    output: O,
}

/// How far a race is.
pub(crate) enum Step {
    /// There is more to measure.
    Going,
    /// A sample is under way.
    Waiting,
    /// It is over.
    Done(Result<Outcome, Vec<Candidate>>),
}

/// A race, and where it is.
pub(crate) struct Race<I, O> {
    inputs: I,
    effort: Effort,
    /// Candidates of less and less priority, for where none of these works.
    levels: std::vec::IntoIter<Vec<usize>>,
    racers: Vec<Racer>,
    /// The next of them, and whether all that race have had their turn.
    turn: usize,
    measured: Duration,
    flight: Option<Flight<O>>,
    /// Those of levels before.
    failed: Vec<Candidate>,
}

impl<I: Clone, O> Race<I, O> {
    pub(crate) fn new<K>(set: &TunableSet<K, I, O>, key: &K, inputs: &I, effort: Effort) -> Self {
        let mut race = Self {
            inputs: (set.inputs)(key, inputs),
            effort,
            levels: set.levels(key).into_iter(),
            racers: Vec::new(),
            turn: 0,
            measured: Duration::ZERO,
            flight: None,
            failed: Vec::new(),
        };
        race.next_level();
        race
    }

    fn next_level(&mut self) -> bool {
        let Some(level) = self.levels.next() else {
            return false;
        };
        let racer = |index| Racer {
            index,
            samples: Vec::new(),
            state: State::New,
        };
        self.racers = level.into_iter().map(racer).collect();
        self.turn = 0;
        true
    }

    /// Goes on by one sample, begun or taken. Where `wait` says so, it waits for one that is under way.
    pub(crate) fn step<K>(
        &mut self,
        set: &TunableSet<K, I, O>,
        measure: &mut dyn Measure,
        wait: bool,
    ) -> Step {
        if let Some(flight) = self.flight.take() {
            let polled = match wait {
                true => measure.wait().map(Some),
                false => measure.poll(),
            };
            match polled {
                Ok(None) => {
                    self.flight = Some(flight);
                    return Step::Waiting;
                }
                Ok(Some(time)) => match caught(|| (set.settled)(&flight.output)) {
                    Ok(()) => self.take(flight.racer, time),
                    Err(why) => self.racers[flight.racer].state = State::Failed(why),
                },
                Err(why) => self.racers[flight.racer].state = State::Failed(why),
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

    /// Runs one, whose time is asked for at the next step.
    fn start<K>(&mut self, set: &TunableSet<K, I, O>, measure: &mut dyn Measure, racer: usize) {
        let run = &set.tunables[self.racers[racer].index].run;
        let inputs = self.inputs.clone();
        let (mut inputs, mut output) = (Some(inputs), None);
        let started = measure.evict().and_then(|()| {
            measure.start(&mut || {
                let inputs = inputs.take();
                let inputs = inputs.ok_or_else(|| Failure::new("it was measured twice at once"))?;
                output = Some(caught(|| run(inputs))?);
                Ok(())
            })
        });
        match (started, output) {
            (Ok(()), Some(output)) => self.flight = Some(Flight { racer, output }),
            (Ok(()), None) => {
                self.racers[racer].state = State::Failed(Failure::new("it was not run"));
            }
            (Err(why), _) => self.racers[racer].state = State::Failed(why),
        }
    }

    fn take(&mut self, racer: usize, time: Duration) {
        let racer = &mut self.racers[racer];
        if racer.state == State::New {
            // Caches, clocks and lazily made things are warm from now on.
            racer.state = State::Racing;
            return;
        }
        self.measured = self.measured.saturating_add(time);
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let place = racer.samples.partition_point(|other| *other <= time);
        racer.samples.insert(place, time);
    }

    /// All had their turn: who goes on?
    fn end_round<K>(&mut self, set: &TunableSet<K, I, O>, measure: &mut dyn Measure) -> Step {
        self.turn = 0;
        let racing = |racer: &&Racer| racer.state == State::Racing;
        if self.leader().is_none() {
            // Those that were too slow for who led are fast enough where that one fails after all.
            for racer in &mut self.racers {
                if racer.state == State::Out {
                    racer.state = State::Racing;
                }
            }
        }
        let Some(leader) = self.leader() else {
            self.failed.extend(candidates(set, &mut self.racers));
            return match self.next_level() {
                true => Step::Going,
                false => Step::Done(Err(std::mem::take(&mut self.failed))),
            };
        };
        let alone = self.racers.iter().filter(racing).count() == 1;
        let taken = self.racers[leader].samples.len() as u32;
        if taken == 0 {
            return Step::Going;
        }
        let sure = self.judge(leader);
        let spent = self.measured >= self.effort.budget;
        let enough = taken >= self.effort.samples || taken >= SAMPLES_MIN && spent;
        if !(sure || enough || alone && taken >= SAMPLES_MIN) {
            return Step::Going;
        }
        let winner = self.racers[leader].index;
        let mut all = candidates(set, &mut self.racers);
        all.append(&mut self.failed);
        // Those that failed are behind those that took for ever.
        let time = |candidate: &Candidate| match &candidate.result {
            Ok(summary) => summary.median,
            Err(_) => f64::INFINITY,
        };
        all.sort_by(|one, other| time(one).total_cmp(&time(other)));
        Step::Done(Ok(Outcome {
            winner,
            clock: measure.clock().to_owned(),
            confidence: if sure { self.effort.confidence } else { 0.0 },
            candidates: all,
        }))
    }

    /// Who is the fastest so far, of those that race.
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

    /// Puts those out that are slower than the leader, and says whether it is sure that the leader is within the tolerance of any other.
    ///
    /// Each comparison is of two intervals. Both may be wrong; so that all comparisons hold at once with the confidence that was asked for,
    /// each interval has its share of the doubt (Bonferroni).
    fn judge(&mut self, leader: usize) -> bool {
        let doubt = 1.0 - self.effort.confidence;
        let confidence = 1.0 - doubt / self.racers.len() as f64;
        let Some((_, leader_most)) = median_interval(&self.racers[leader].samples, confidence)
        else {
            return false;
        };
        let mut sure = true;
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
            sure &= least * (1.0 + self.effort.tolerance) >= leader_most;
        }
        sure
    }
}

/// What became of these.
fn candidates<K, I, O>(set: &TunableSet<K, I, O>, racers: &mut Vec<Racer>) -> Vec<Candidate> {
    let of = |racer: Racer| Candidate {
        name: set.tunables[racer.index].name.clone(),
        index: racer.index,
        result: match racer.state {
            State::Failed(why) => Err(why),
            _ if racer.samples.is_empty() => Err(Failure::new("it was not measured")),
            _ => Ok(Summary::of(&racer.samples)),
        },
    };
    std::mem::take(racers).into_iter().map(of).collect()
}

/// What it answers, or what it panicked with.
pub(crate) fn caught<T>(run: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        let text = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned());
        // A payload whose drop panics is not dropped.
        std::mem::forget(payload);
        Err(Failure::Panicked(
            text.unwrap_or_else(|| "a value that is no text".to_owned()),
        ))
    })
}

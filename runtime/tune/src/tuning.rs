//! A single tuning: which thread leads it, how it advances, and how it ends.
//!
//! ```text
//!  begin ──► Known: nothing to do
//!     ├────► Tuning: this caller leads. advance .. advance ──► Done: the choice is published, then the flight ends
//!     │                                     dropped ──► the flight ends without a result
//!     └────► Elsewhere: another caller leads. wait ──► begin again, or the error if no candidate worked
//! ```
//! `flights` has the protocol between these callers.

use std::sync::Arc;

use crate::choice::{Candidate, Outcome};
use crate::choice::{Choice, Chosen};
use crate::error::TuneError;
use crate::flights::{Role, lock};
use crate::measure::Measure;
use crate::race::{Race, Step};
use crate::set::{Checksum, TunableSet};
use crate::tuner::{KnownChoice, TuneKey, Tuner, no_candidates, only_candidate};

impl<K: TuneKey> Tuner<K> {
    /// Begins to tune a key. The caller advances the tuning with [`Tuning::advance`], on a driven device between pumps.
    /// Never waits.
    pub fn begin<I: Clone, O>(
        &self,
        set: &TunableSet<K, I, O>,
        key: &K,
        inputs: &I,
    ) -> Begun<K, I, O> {
        if let Some(choice) = only_candidate(set) {
            return Begun::Known(choice);
        }
        // Before the flight begins: no code of the key may come between its begin and the lead that ends it.
        let own = key.clone();
        let mut stale = None;
        let flights = &self.shared.flights;
        let role = flights.join(key, || self.find(key, set, &mut stale));
        match role {
            Ok(choice) => Begun::Known(choice),
            Err(Role::Follower) => {
                Self::report_stale(set, stale);
                Begun::Elsewhere(Elsewhere {
                    tuner: self.clone(),
                    set: set.name().clone(),
                    key: own,
                })
            }
            Err(Role::Leader) => {
                let lead = Lead {
                    tuner: self.clone(),
                    key: own,
                    failed: None,
                };
                Self::report_stale(set, stale);
                tracing::info!(target: "millstream::tune", ?key, set = %set.name(), candidates = set.len(), "tuning");
                // The generator of inputs is user code: if it panics, the lead is dropped, which ends the flight.
                let race = Race::new(set, key, inputs, self.shared.effort);
                Begun::Tuning(Box::new(Tuning {
                    set: set.checksum(),
                    race,
                    state: State::Leads(lead),
                }))
            }
        }
    }

    /// Publishes the result of a tuning, and saves it if there is a store and `wait` allows to wait for it.
    fn publish<I, O>(&self, set: &TunableSet<K, I, O>, key: &K, outcome: Outcome, wait: bool) {
        let sum = set.checksum();
        let known = KnownChoice {
            index: outcome.winner,
            set: sum,
            checked: true,
            outcome: Arc::new(outcome),
        };
        let outcome = known.outcome.clone();
        self.write().insert(key.clone(), known);
        lock(&self.shared.forgotten).remove(key);
        let winner = outcome.best().map_or("", |best| best.name.as_ref());
        tracing::info!(target: "millstream::tune", ?key, set = %set.name(), winner, top = outcome.top(), clock = outcome.clock, confidence = outcome.confidence, "tuned");
        if wait && let Err(why) = self.save() {
            tracing::warn!(target: "millstream::tune", %why, "the tuned choice was not saved");
        }
    }
}

/// The result of [`Tuner::begin`].
pub enum Begun<K: TuneKey, I, O> {
    /// The choice is known, or there is only one candidate.
    Known(Choice),
    /// The caller leads the tuning.
    Tuning(Box<Tuning<K, I, O>>),
    /// Another caller leads the tuning.
    Elsewhere(Elsewhere<K>),
}

/// A tuning that another caller leads.
pub struct Elsewhere<K> {
    tuner: Tuner<K>,
    set: Arc<str>,
    key: K,
}

impl<K: TuneKey> Elsewhere<K> {
    /// Waits until the tuning has ended. Then begin again: it returns the choice, or a new tuning if that one was
    /// dropped.
    ///
    /// # Errors
    /// The error of the tuning, if it found no working candidate, so that tuning again is useless.
    /// [`TuneError::WouldDeadlock`] if this thread leads the tuning itself, or if the thread that leads it waits for this
    /// one.
    pub fn wait(self) -> Result<(), TuneError> {
        let flights = &self.tuner.shared.flights;
        if !flights.wait(&self.key) {
            let deadlock = |set, key| TuneError::WouldDeadlock { set, key };
            return Err(TuneError::about(&self.set, &self.key, deadlock));
        }
        flights.failure(&self.key).map_or(Ok(()), Err)
    }
}

/// A tuning in progress. Dropping it ends it without a result, and callers that wait for it may begin again.
pub struct Tuning<K: TuneKey, I, O> {
    /// The checksum of the set that it was begun with.
    set: Checksum,
    race: Race<I, O>,
    state: State<K>,
}

enum State<K: TuneKey> {
    Leads(Lead<K>),
    Ended(Result<Choice, TuneError>),
}

/// The lead of a key's flight, which ends when this is dropped.
struct Lead<K: TuneKey> {
    tuner: Tuner<K>,
    key: K,
    /// The error if no candidate worked, for those that wait.
    failed: Option<TuneError>,
}

impl<K: TuneKey> Drop for Lead<K> {
    fn drop(&mut self) {
        let flights = &self.tuner.shared.flights;
        flights.end(&self.key, self.failed.take());
    }
}

/// The state of a tuning.
#[derive(Debug)]
pub enum Progress {
    /// There is more to do: call [`Tuning::advance`] again at once.
    Going,
    /// A sample is in progress on the device: call [`Tuning::advance`] again after the device was pumped.
    Waiting,
    /// The tuning has ended.
    Done(Result<Choice, TuneError>),
}

impl<K: TuneKey, I: Clone, O> Tuning<K, I, O> {
    /// Advances the tuning by one sample, started or finished. After the end it returns the result again.
    ///
    /// With `wait`, it waits for the device, and at the end for the store of the tuner, if there is one. Without, it
    /// waits for neither; the result is saved by [`Tuner::save`], or together with the next choice that is waited
    /// for.
    pub fn advance(
        &mut self,
        set: &TunableSet<K, I, O>,
        measure: &mut dyn Measure,
        wait: bool,
    ) -> Progress {
        let lead = match &mut self.state {
            State::Leads(lead) => lead,
            State::Ended(done) => return Progress::Done(done.clone()),
        };
        lead.tuner.shared.flights.continue_here(&lead.key);
        let done = if self.set != set.checksum() {
            let other = |set, key| TuneError::OtherSet { set, key };
            Err(TuneError::about(set.name(), &lead.key, other))
        } else {
            match self.race.step(set, measure, wait) {
                Step::Going => return Progress::Going,
                Step::Waiting => return Progress::Waiting,
                Step::Done(Ok(outcome)) => {
                    let (index, by) = (outcome.winner, Chosen::Tuned);
                    lead.tuner.publish(set, &lead.key, outcome, wait);
                    Ok(Choice { index, by })
                }
                Step::Done(Err(failed)) => {
                    let reason = |failed: Candidate| Some((failed.name, failed.result.err()?));
                    let failures = failed.into_iter().filter_map(reason).collect();
                    let all_failed = |set, key| TuneError::AllFailed { set, key, failures };
                    let failed = match set.is_empty() {
                        true => no_candidates(set, &lead.key),
                        false => TuneError::about(set.name(), &lead.key, all_failed),
                    };
                    lead.failed = Some(failed.clone());
                    Err(failed)
                }
            }
        };
        // Drops the lead, which ends the flight.
        self.state = State::Ended(done.clone());
        Progress::Done(done)
    }
}

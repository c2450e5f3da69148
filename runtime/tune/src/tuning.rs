//! A single tuning: which thread leads it, how it advances, and how it ends.
//!
//! ```text
//!  begin ──► Known: nothing to do
//!     ├────► Tuning: this caller leads. advance .. advance ──► Done: the choice is published, then the flight ends
//!     │                                     dropped ──► the flight ends without a result
//!     └────► Elsewhere: another caller leads. wait ──► begin again, or the error if no candidate worked
//! ```
//! A leader and a follower side by side:
//!
//! ```text
//! leader                                       follower
//! begin: leads the flight of the key
//! advance .. samples                             begin: Elsewhere
//!                                              wait: the wait graph allows it, sleeps
//! advance: Done. Inserts the choice, or the
//!   error in `failed`; then ends the flight ─► wakes, reads `failed`
//!                                              begin: Known, or the error
//! ```
//! The result is published before the flight ends, so a follower that wakes always finds it (I5).

use std::sync::Arc;
use std::thread::{self, ThreadId};

use millstream_sync::facade::SpinPolicy;
use millstream_sync::flight::{Follow, Lead, Role};

use crate::choice::{Choice, Chosen};
use crate::error::TuneError;
use crate::measure::Measure;
use crate::outcome::{Candidate, Outcome};
use crate::race::{Race, Step};
use crate::set::{Checksum, TunableSet};
use crate::tuner::{KnownChoice, TuneKey, Tuner, lock, no_candidates, only_candidate};

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
        match self.shared.flights.join(key, || self.known(key, set)) {
            Ok(choice) => Begun::Known(choice),
            Err(Role::Follower(follow)) => Begun::Elsewhere(Elsewhere {
                follow,
                tuner: self.clone(),
                set: set.name().clone(),
                key: key.clone(),
            }),
            Err(Role::Leader(lead)) => {
                let mut leadership = Leadership {
                    tuner: self.clone(),
                    key: key.clone(),
                    thread: None,
                    _lead: lead,
                };
                leadership.claim_thread();
                lock(&self.shared.failed).remove(key);
                tracing::info!(target: "millstream::tune", ?key, set = %set.name(), candidates = set.len(), "tuning");
                // The generator of inputs is user code: if it panics, the lead is dropped, which ends the flight.
                let race = Race::new(set, key, inputs, self.shared.effort);
                Begun::Tuning(Box::new(Tuning {
                    tuner: self.clone(),
                    key: key.clone(),
                    set: set.checksum(),
                    race,
                    leadership: Some(leadership),
                    done: None,
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
    follow: Follow<K>,
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
        if !lock(&self.tuner.shared.waits).try_wait(&self.key) {
            let deadlock = |set, key| TuneError::WouldDeadlock { set, key };
            return Err(TuneError::about(&self.set, &self.key, deadlock));
        }
        self.follow.wait(&SpinPolicy::default());
        lock(&self.tuner.shared.waits).end_wait();
        match lock(&self.tuner.shared.failed).get(&self.key) {
            Some(why) => Err(why.clone()),
            None => Ok(()),
        }
    }
}

/// A tuning in progress. Dropping it ends it without a result, and callers that wait for it may begin again.
pub struct Tuning<K: TuneKey, I, O> {
    tuner: Tuner<K>,
    key: K,
    /// The checksum of the set that it was begun with.
    set: Checksum,
    race: Race<I, O>,
    /// Dropped when the tuning has ended, after the result is published.
    leadership: Option<Leadership<K>>,
    done: Option<Result<Choice, TuneError>>,
}

/// The lead of a key's flight, and the thread that advances it.
struct Leadership<K: TuneKey> {
    tuner: Tuner<K>,
    key: K,
    thread: Option<ThreadId>,
    /// Dropped last: the thread is unregistered before the next leader registers its own.
    _lead: Lead<K>,
}

impl<K: TuneKey> Leadership<K> {
    /// Registers the calling thread as the one that tunes the key.
    fn claim_thread(&mut self) {
        let current = Some(thread::current().id());
        if self.thread != current {
            self.thread = current;
            lock(&self.tuner.shared.waits).start_tuning(&self.key);
        }
    }
}

impl<K: TuneKey> Drop for Leadership<K> {
    fn drop(&mut self) {
        lock(&self.tuner.shared.waits).end_tuning(&self.key);
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
        if let Some(done) = &self.done {
            return Progress::Done(done.clone());
        }
        if self.set != set.checksum() {
            let other = |set, key| TuneError::OtherSet { set, key };
            return self.end(Err(TuneError::about(set.name(), &self.key, other)));
        }
        if let Some(leadership) = &mut self.leadership {
            leadership.claim_thread();
        }
        match self.race.step(set, measure, wait) {
            Step::Going => Progress::Going,
            Step::Waiting => Progress::Waiting,
            Step::Done(Ok(outcome)) => {
                let index = outcome.winner;
                self.tuner.publish(set, &self.key, outcome, wait);
                self.end(Ok(Choice {
                    index,
                    by: Chosen::Tuned,
                }))
            }
            Step::Done(Err(failed)) => {
                let reason = |candidate: Candidate| Some((candidate.name, candidate.result.err()?));
                let failures = failed.into_iter().filter_map(reason).collect();
                let all_failed = |set, key| TuneError::AllFailed { set, key, failures };
                let failed = match set.is_empty() {
                    true => no_candidates(set, &self.key),
                    false => TuneError::about(set.name(), &self.key, all_failed),
                };
                // Before the flight ends: followers read it when they wake.
                lock(&self.tuner.shared.failed).insert(self.key.clone(), failed.clone());
                self.end(Err(failed))
            }
        }
    }

    /// Ends the tuning, for the followers as well.
    fn end(&mut self, done: Result<Choice, TuneError>) -> Progress {
        self.done = Some(done.clone());
        drop(self.leadership.take());
        Progress::Done(done)
    }
}

//! One tuning: who may do it, how it goes on, and what becomes known by it.

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
use crate::tuner::{Settled, TuneKey, Tuner, alone, lock, no_candidates};

impl<K: TuneKey> Tuner<K> {
    /// Begins to tune a key, to be gone on with by [`Tuning::go_on`]: on a driven device between pumps. Never waits.
    pub fn begin<I: Clone, O>(
        &self,
        set: &TunableSet<K, I, O>,
        key: &K,
        inputs: &I,
    ) -> Begun<K, I, O> {
        if let Some(choice) = alone(&set.levels(key)) {
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
                let mut leads = Leads {
                    tuner: self.clone(),
                    key: key.clone(),
                    by: None,
                    _lead: lead,
                };
                leads.is_here();
                lock(&self.shared.failed).remove(key);
                tracing::info!(target: "millstream::tune", ?key, set = %set.name(), candidates = set.len(), "tuning");
                // The generator is user's code: a panic of it ends the flight, as the lead is dropped.
                let race = Race::new(set, key, inputs, self.shared.effort);
                Begun::Tuning(Box::new(Tuning {
                    tuner: self.clone(),
                    key: key.clone(),
                    set: set.checksum(),
                    race,
                    leads: Some(leads),
                    done: None,
                }))
            }
        }
    }

    /// Makes known what was found, and keeps it where there is a store and time to wait for that.
    fn settle<I, O>(&self, set: &TunableSet<K, I, O>, key: &K, outcome: Outcome, wait: bool) {
        let sum = set.checksum();
        let settled = Settled {
            index: outcome.winner,
            set: sum,
            checked: true,
            outcome: Arc::new(outcome),
        };
        let outcome = settled.outcome.clone();
        self.write().insert(key.clone(), settled);
        lock(&self.shared.forgotten).remove(key);
        let winner = outcome.best().map_or("", |best| best.name.as_ref());
        tracing::info!(target: "millstream::tune", ?key, set = %set.name(), winner, top = outcome.top(), clock = outcome.clock, confidence = outcome.confidence, "tuned");
        if wait && let Err(why) = self.save() {
            tracing::warn!(target: "millstream::tune", %why, "what was tuned is not kept");
        }
    }
}

/// What came of the wish to tune a key.
pub enum Begun<K: TuneKey, I, O> {
    /// It is known already, or there is no other.
    Known(Choice),
    /// It is to be tuned here.
    Tuning(Box<Tuning<K, I, O>>),
    /// Somebody else tunes it.
    Elsewhere(Elsewhere<K>),
}

/// A tuning by somebody else.
pub struct Elsewhere<K> {
    follow: Follow<K>,
    tuner: Tuner<K>,
    set: Arc<str>,
    key: K,
}

impl<K: TuneKey> Elsewhere<K> {
    /// Waits until it is over: begin anew, which finds what it found, or that it was given up.
    ///
    /// # Errors
    /// It found nothing that works, so that there is no use in doing it again; [`TuneError::TunedHere`] where this thread is
    /// at it itself, or who is waits for this one.
    pub fn wait(self) -> Result<(), TuneError> {
        if !lock(&self.tuner.shared.threads).may_wait(&self.key) {
            return Err(TuneError::TunedHere {
                set: self.set,
                key: format!("{:?}", self.key),
            });
        }
        self.follow.wait(&SpinPolicy::default());
        lock(&self.tuner.shared.threads).has_waited();
        match lock(&self.tuner.shared.failed).get(&self.key) {
            Some(why) => Err(why.clone()),
            None => Ok(()),
        }
    }
}

/// A tuning that is under way. Dropped, it is over without a result, and whoever waits for it may begin anew.
pub struct Tuning<K: TuneKey, I, O> {
    tuner: Tuner<K>,
    key: K,
    /// Of the set that it was begun with.
    set: Checksum,
    race: Race<I, O>,
    /// Until it is over: what was found is known by then.
    leads: Option<Leads<K>>,
    done: Option<Result<Choice, TuneError>>,
}

/// The right to tune a key, and on which thread that is done.
struct Leads<K: TuneKey> {
    tuner: Tuner<K>,
    key: K,
    by: Option<ThreadId>,
    /// Dropped after the rest: who comes next is the only one whose thread is noted.
    _lead: Lead<K>,
}

impl<K: TuneKey> Leads<K> {
    /// It is this thread that is at it, from now on.
    fn is_here(&mut self) {
        let here = Some(thread::current().id());
        if self.by != here {
            self.by = here;
            lock(&self.tuner.shared.threads).tunes(&self.key);
        }
    }
}

impl<K: TuneKey> Drop for Leads<K> {
    fn drop(&mut self) {
        lock(&self.tuner.shared.threads).ended(&self.key);
    }
}

/// How far a tuning is.
#[derive(Debug)]
pub enum Progress {
    /// There is more to do: go on at once.
    Going,
    /// The device is at it: go on once it has been pumped.
    Waiting,
    /// It is over.
    Done(Result<Choice, TuneError>),
}

impl<K: TuneKey, I: Clone, O> Tuning<K, I, O> {
    /// Goes on by one sample, begun or taken; once it is over, it says again what came of it. If `wait` says so it waits for the device, and,
    /// where it ends, for the store of a tuner that has one. Else it waits for neither: what was found is stored by [`Tuner::save`], or along with
    /// the next choice that somebody waits for.
    pub fn go_on(
        &mut self,
        set: &TunableSet<K, I, O>,
        measure: &mut dyn Measure,
        wait: bool,
    ) -> Progress {
        if let Some(done) = &self.done {
            return Progress::Done(done.clone());
        }
        if self.set != set.checksum() {
            return self.end(Err(TuneError::OtherSet {
                set: set.name().clone(),
                key: format!("{:?}", self.key),
            }));
        }
        if let Some(leads) = &mut self.leads {
            leads.is_here();
        }
        match self.race.step(set, measure, wait) {
            Step::Going => Progress::Going,
            Step::Waiting => Progress::Waiting,
            Step::Done(Ok(outcome)) => {
                let index = outcome.winner;
                self.tuner.settle(set, &self.key, outcome, wait);
                self.end(Ok(Choice {
                    index,
                    by: Chosen::Tuned,
                }))
            }
            Step::Done(Err(failed)) => {
                let reason = |candidate: Candidate| Some((candidate.name, candidate.result.err()?));
                let failures = failed.into_iter().filter_map(reason).collect();
                let failed = match set.levels(&self.key).is_empty() {
                    true => no_candidates(set, &self.key),
                    false => self.tuner.all_failed(set, &self.key, failures),
                };
                // Before the flight ends: who waits looks here then.
                lock(&self.tuner.shared.failed).insert(self.key.clone(), failed.clone());
                self.end(Err(failed))
            }
        }
    }

    /// It is over, also for those that wait.
    fn end(&mut self, done: Result<Choice, TuneError>) -> Progress {
        self.done = Some(done.clone());
        drop(self.leads.take());
        Progress::Done(done)
    }
}

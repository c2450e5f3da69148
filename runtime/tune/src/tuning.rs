//! One tuning: who may do it, how it goes on, and what becomes known by it.

use std::sync::Arc;

use millstream_sync::facade::SpinPolicy;
use millstream_sync::flight::{Follow, Lead, Role};

use crate::choice::{Choice, Chosen};
use crate::error::TuneError;
use crate::measure::Measure;
use crate::outcome::{Candidate, Outcome};
use crate::race::{Race, Step};
use crate::set::TunableSet;
use crate::tuner::{Settled, TuneKey, Tuner, alone, no_candidates};

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
            Err(Role::Follower(follow)) => Begun::Elsewhere(Elsewhere(follow)),
            Err(Role::Leader(lead)) => {
                tracing::info!(target: "millstream::tune", ?key, set = %set.name(), candidates = set.len(), "tuning");
                // The generator is user's code: a panic of it ends the flight, as the lead is dropped.
                let race = Race::new(set, key, inputs, self.shared.effort);
                Begun::Tuning(Box::new(Tuning {
                    tuner: self.clone(),
                    key: key.clone(),
                    race,
                    _lead: lead,
                }))
            }
        }
    }

    fn settle<I, O>(&self, set: &TunableSet<K, I, O>, key: &K, outcome: Outcome) {
        let sum = set.checksum();
        let settled = Settled {
            index: outcome.winner,
            set: sum,
            checked: true,
            outcome: Arc::new(outcome),
        };
        let outcome = settled.outcome.clone();
        self.write().insert(key.clone(), settled);
        let winner = outcome.best().map_or("", |best| best.name.as_ref());
        tracing::info!(target: "millstream::tune", ?key, set = %set.name(), winner, top = outcome.top(), clock = outcome.clock, confidence = outcome.confidence, "tuned");
        if let Some((store, _)) = &self.shared.store
            && let Err(why) = self.keep(store.as_ref())
        {
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
    Elsewhere(Elsewhere),
}

/// A tuning by somebody else.
pub struct Elsewhere(Follow);

impl Elsewhere {
    /// Waits until it is over, however it ends.
    pub fn wait(self) {
        self.0.wait(&SpinPolicy::default());
    }
}

/// A tuning that is under way. Dropped, it is over without a result, and whoever waits for it may begin anew.
pub struct Tuning<K: TuneKey, I, O> {
    tuner: Tuner<K>,
    key: K,
    race: Race<I, O>,
    /// Dropped last: what was found is known by then.
    _lead: Lead<K>,
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
    /// Goes on by one sample, begun or taken. Waits for the device if `wait` says so, and never else.
    pub fn go_on(
        &mut self,
        set: &TunableSet<K, I, O>,
        measure: &mut dyn Measure,
        wait: bool,
    ) -> Progress {
        match self.race.step(set, measure, wait) {
            Step::Going => Progress::Going,
            Step::Waiting => Progress::Waiting,
            Step::Done(Ok(outcome)) => {
                let index = outcome.winner;
                self.tuner.settle(set, &self.key, outcome);
                Progress::Done(Ok(Choice {
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
                Progress::Done(Err(failed))
            }
        }
    }
}

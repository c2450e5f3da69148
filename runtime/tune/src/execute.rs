//! Chooses a candidate under a policy, and runs it: what most callers need of a tuner.

use crate::choice::{Choice, Chosen, Policy};
use crate::error::TuneError;
use crate::measure::Measure;
use crate::race::catch_panic;
use crate::set::TunableSet;
use crate::tuner::{TuneKey, Tuner, no_candidates, only_candidate};
use crate::tuning::{Begun, Progress};

impl<K: TuneKey> Tuner<K> {
    /// Returns the candidate to use, and tunes the key if the policy allows it. Waits only under [`Policy::Wait`].
    ///
    /// # Errors
    /// [`TuneError`].
    pub fn choose<I: Clone, O>(
        &self,
        set: &TunableSet<K, I, O>,
        key: &K,
        inputs: &I,
        measure: &mut dyn Measure,
        policy: Policy,
    ) -> Result<Choice, TuneError> {
        if let Some(choice) = self.known(key, set) {
            return Ok(choice);
        }
        if set.is_empty() {
            return Err(no_candidates(set, key));
        }
        if let Some(choice) = only_candidate(set) {
            return Ok(choice);
        }
        match policy {
            Policy::UseDefault | Policy::FrozenDefault => {
                return Ok(Choice {
                    index: 0,
                    by: Chosen::Default,
                });
            }
            Policy::Frozen => {
                let frozen = |set, key| TuneError::Frozen { set, key };
                return Err(TuneError::about(set.name(), key, frozen));
            }
            Policy::Wait => {}
        }
        loop {
            match self.begin(set, key, inputs) {
                Begun::Known(choice) => return Ok(choice),
                Begun::Tuning(mut tuning) => loop {
                    if let Progress::Done(done) = tuning.advance(set, measure, true) {
                        return done;
                    }
                },
                Begun::Elsewhere(elsewhere) => elsewhere.wait()?,
            }
        }
    }

    /// Runs the candidate to use. If a candidate that was known to be the fastest fails, its choice is forgotten, and
    /// the next candidate that works is used for this call; the next use tunes the key again.
    ///
    /// # Errors
    /// [`TuneError`]; [`TuneError::AllFailed`] if no candidate works.
    pub fn execute<I: Clone, O>(
        &self,
        set: &TunableSet<K, I, O>,
        key: &K,
        inputs: I,
        measure: &mut dyn Measure,
        policy: Policy,
    ) -> Result<O, TuneError> {
        let choice = self.choose(set, key, &inputs, measure, policy)?;
        let tunable = &set.tunables[choice.index];
        let first = catch_panic(|| (tunable.run)(inputs.clone()));
        let why = match first {
            Ok(output) => return Ok(output),
            Err(why) => why,
        };
        tracing::warn!(target: "millstream::tune", ?key, set = %set.name(), candidate = %tunable.name, %why, "the chosen candidate failed; trying the others");
        if policy != Policy::Frozen && policy != Policy::FrozenDefault {
            self.forget_choice(key, choice.index);
        }
        let mut failures = vec![(tunable.name.clone(), why)];
        let others = set.tunables.iter().enumerate();
        for (_, tunable) in others.filter(|(index, _)| *index != choice.index) {
            match catch_panic(|| (tunable.run)(inputs.clone())) {
                Ok(output) => return Ok(output),
                Err(why) => failures.push((tunable.name.clone(), why)),
            }
        }
        let all_failed = |set, key| TuneError::AllFailed { set, key, failures };
        Err(TuneError::about(set.name(), key, all_failed))
    }
}

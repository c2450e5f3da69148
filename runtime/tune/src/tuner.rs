//! The tuner: what is known of each key, and how it comes to be known.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use millstream_sync::facade::SpinPolicy;
use millstream_sync::flight::{Flights, Follow, Lead, Role};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Failure, StoreError, TuneError};
use crate::measure::Measure;
use crate::outcome::Outcome;
use crate::persist::{self, Identity, Kept};
use crate::race::{Effort, Race, Step, caught};
use crate::set::{Checksum, TunableSet};
use crate::store::Store;

/// What a key may be.
pub trait TuneKey:
    Hash + Eq + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> TuneKey for K where
    K: Hash + Eq + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

/// What is known of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fastest {
    /// The fastest candidate, by its index in the set.
    Hit(usize),
    /// It is being tuned.
    Pending,
    /// One was stored, of a set whose checksum nobody has compared yet: [`Tuner::validate_checksum`] settles it.
    Unchecked,
    /// Nothing.
    Miss,
}

/// What to do where a key is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// Tune it here and now. Others that ask for it meanwhile wait until that is over, and nobody tunes it twice.
    #[default]
    Wait,
    /// Use the default, and tune nothing here: for a frame's or a request's path. `Background` of the package `millstream` tunes it behind
    /// the caller's back.
    UseDefault,
    /// Tune nothing, ever: the same program does the same. A key that is not known is an error.
    Frozen,
    /// The same, with the default for a key that is not known.
    FrozenDefault,
}

/// A candidate that was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Its index in the set.
    pub index: usize,
    /// Why it.
    pub by: Chosen,
}

/// How a candidate came to be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chosen {
    /// There is no other, or no other that may be tried.
    Alone,
    /// It was known to be the fastest.
    Known,
    /// It was found to be, now.
    Tuned,
    /// It is the default, and what is the fastest is not known.
    Default,
}

pub(crate) struct Settled {
    pub(crate) index: usize,
    /// Of the set that it was chosen from.
    pub(crate) set: Checksum,
    /// That set is the one that is asked for.
    pub(crate) checked: bool,
    pub(crate) outcome: Arc<Outcome>,
}

/// Looked up on hot paths: by a hash that is quick, and seeded anew for each tuner.
type Known<K> = HashMap<K, Settled, foldhash::fast::RandomState>;

struct Shared<K> {
    settled: RwLock<Known<K>>,
    flights: Flights<K>,
    store: Option<(Box<dyn Store>, Identity)>,
    effort: Effort,
}

/// Remembers which candidate is the fastest for each key, and finds it out where that is not known.
///
/// Cheap to clone: clones share what they know. Any thread may ask.
///
/// ```
/// use millstream_tune::{Chosen, Fastest, Policy, Tunable, TunableSet, Tuner};
/// # use millstream_tune::{Failure, Measure};
/// # struct Clock;
/// # impl Measure for Clock {
/// #     fn clock(&self) -> &str { "none" }
/// #     fn start(&mut self, work: &mut dyn FnMut() -> Result<(), Failure>) -> Result<(), Failure> { work() }
/// #     fn poll(&mut self) -> Result<Option<std::time::Duration>, Failure> { Ok(Some(std::time::Duration::from_micros(1))) }
/// # }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let set = TunableSet::new("sum", |len: &usize, _: &Vec<f32>| vec![1.0_f32; *len])
///     .with(Tunable::new("in order", |x: Vec<f32>| Ok::<_, String>(x.iter().sum::<f32>())))
///     .with(Tunable::new("broken", |_: Vec<f32>| Err("it is broken")));
/// let tuner = Tuner::new();
/// assert_eq!(tuner.fastest(&1000), Fastest::Miss);
///
/// let sum = tuner.execute(&set, &1000, vec![2.0; 1000], &mut Clock, Policy::Wait)?;
/// assert_eq!(sum, 2000.0);
/// assert_eq!(tuner.fastest(&1000), Fastest::Hit(0));
/// # Ok(())
/// # }
/// ```
pub struct Tuner<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for Tuner<K> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<K: TuneKey> Default for Tuner<K> {
    fn default() -> Self {
        Self::new()
    }
}

/// What was read of a store or a bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Loaded {
    /// Choices that are known now.
    pub choices: usize,
    /// Lines that were damaged, and are as if they had not been there.
    pub damaged: usize,
}

impl<K: TuneKey> Tuner<K> {
    /// One that remembers as long as it lives.
    pub fn new() -> Self {
        Self::of(None, Effort::default())
    }

    fn of(store: Option<(Box<dyn Store>, Identity)>, effort: Effort) -> Self {
        Self {
            shared: Arc::new(Shared {
                settled: RwLock::default(),
                flights: Flights::default(),
                store,
                effort,
            }),
        }
    }

    /// One that measures with more, or with less, care.
    pub fn with_effort(effort: Effort) -> Self {
        Self::of(None, effort)
    }

    /// One that keeps its choices, and begins with those that were kept for this device. What is damaged there, or is of another device, is told in
    /// the log and tuned anew.
    ///
    /// # Errors
    /// The store cannot be read at all.
    pub fn with_store(
        store: impl Store + 'static,
        identity: Identity,
        effort: Effort,
    ) -> Result<(Self, Loaded), StoreError> {
        let bytes = store.load()?;
        let place = store.place();
        let tuner = Self::of(Some((Box::new(store), identity.clone())), effort);
        let Some(bytes) = bytes else {
            return Ok((tuner, Loaded::default()));
        };
        let loaded = match persist::read(&bytes, &identity) {
            Ok(read) => tuner.take(read),
            Err(why) => {
                tracing::warn!(target: "millstream::tune", place, %why, "what was tuned before is not used");
                Loaded::default()
            }
        };
        if loaded.damaged > 0 {
            let damaged = loaded.damaged;
            tracing::warn!(target: "millstream::tune", place, damaged, "lines of the tuning cache are damaged: their keys are tuned anew");
        }
        Ok((tuner, loaded))
    }

    /// Remembers what was read, but for keys that are known already.
    fn take(&self, read: persist::Read<K>) -> Loaded {
        let mut settled = self.write();
        let mut loaded = Loaded {
            choices: 0,
            damaged: read.damaged,
        };
        for Kept { key, set, outcome } in read.kept {
            let index = outcome.winner;
            let known = Settled {
                index,
                set,
                checked: false,
                outcome: Arc::new(outcome),
            };
            // Of a key that was kept twice the later one holds; what was tuned here holds in any case.
            if settled.get(&key).is_none_or(|known| !known.checked) {
                settled.insert(key, known);
                loaded.choices += 1;
            }
        }
        loaded
    }

    fn read(&self) -> RwLockReadGuard<'_, Known<K>> {
        // Nothing is half done where somebody panics: each change is one insertion.
        self.shared
            .settled
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known<K>> {
        self.shared
            .settled
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a key. Never waits for a tuning.
    pub fn fastest(&self, key: &K) -> Fastest {
        match self.read().get(key) {
            Some(settled) if settled.checked => return Fastest::Hit(settled.index),
            Some(_) => return Fastest::Unchecked,
            None => {}
        }
        match self.shared.flights.is_under_way(key) {
            true => Fastest::Pending,
            // It may have been settled between the two.
            false => match self.read().get(key) {
                Some(settled) if settled.checked => Fastest::Hit(settled.index),
                Some(_) => Fastest::Unchecked,
                None => Fastest::Miss,
            },
        }
    }

    /// Settles a choice that was stored: it holds if it was made among these candidates, and is forgotten if not. Answers what is known then.
    pub fn validate_checksum<I, O>(&self, key: &K, set: &TunableSet<K, I, O>) -> Fastest {
        match self.known(key, set) {
            Some(choice) => Fastest::Hit(choice.index),
            None => self.fastest(key),
        }
    }

    /// What is known of a key, checked. Asked under the lock of the flights, too, and so takes none of theirs.
    fn known<I, O>(&self, key: &K, set: &TunableSet<K, I, O>) -> Option<Choice> {
        let known = |index| Choice {
            index,
            by: Chosen::Known,
        };
        match self.read().get(key) {
            Some(settled) if settled.checked => return Some(known(settled.index)),
            Some(_) => {}
            None => return None,
        }
        let here = set.checksum();
        let mut all = self.write();
        let settled = all.get_mut(key)?;
        settled.checked |= settled.set == here && settled.index < set.len();
        if settled.checked {
            return Some(known(settled.index));
        }
        tracing::info!(target: "millstream::tune", ?key, set = %set.name(), "what was tuned is of other candidates: it is tuned anew");
        all.remove(key);
        None
    }

    /// All that came of tuning a key.
    pub fn outcome(&self, key: &K) -> Option<Arc<Outcome>> {
        self.read().get(key).map(|settled| settled.outcome.clone())
    }

    /// Forgets a key: it is tuned anew where it is asked for next.
    pub fn forget(&self, key: &K) {
        self.write().remove(key);
    }

    /// The candidate that is to be used, tuning as the policy says. Waits under [`Policy::Wait`] alone.
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
        let levels = set.levels(key);
        let default = || Choice {
            index: match levels
                .iter()
                .flatten()
                .any(|index| *index == set.default_index())
            {
                true => set.default_index(),
                false => levels[0][0],
            },
            by: Chosen::Default,
        };
        match levels.as_slice() {
            [] => {
                return Err(TuneError::NoCandidates {
                    set: set.name().clone(),
                    key: format!("{key:?}"),
                });
            }
            [only] if only.len() == 1 => {
                return Ok(Choice {
                    index: only[0],
                    by: Chosen::Alone,
                });
            }
            _ => {}
        }
        match policy {
            Policy::UseDefault | Policy::FrozenDefault => return Ok(default()),
            Policy::Frozen => {
                return Err(TuneError::Frozen {
                    set: set.name().clone(),
                    key: format!("{key:?}"),
                });
            }
            Policy::Wait => {}
        }
        loop {
            match self.begin(set, key, inputs) {
                Begun::Known(choice) => return Ok(choice),
                Begun::Tuning(mut tuning) => loop {
                    if let Progress::Done(done) = tuning.go_on(set, measure, true) {
                        return done;
                    }
                },
                Begun::Elsewhere(elsewhere) => elsewhere.wait(),
            }
        }
    }

    /// Runs the candidate that is to be used. One that was known to be the fastest and fails is forgotten, and the next that works takes its place
    /// for this call: the key is tuned anew where it is asked for next.
    ///
    /// # Errors
    /// [`TuneError`]; [`TuneError::AllFailed`] where none works.
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
        let first = caught(|| (tunable.run)(inputs.clone()));
        let why = match first {
            Ok(output) => return Ok(output),
            Err(why) => why,
        };
        tracing::warn!(target: "millstream::tune", ?key, set = %set.name(), candidate = %tunable.name, %why, "the chosen candidate fails: another one takes its place");
        if policy != Policy::Frozen && policy != Policy::FrozenDefault {
            self.forget(key);
        }
        let mut failures = vec![(tunable.name.clone(), why)];
        let others = set.levels(key).into_iter().flatten();
        for index in others.filter(|index| *index != choice.index) {
            let tunable = &set.tunables[index];
            match caught(|| (tunable.run)(inputs.clone())) {
                Ok(output) => return Ok(output),
                Err(why) => failures.push((tunable.name.clone(), why)),
            }
        }
        Err(self.all_failed(set, key, failures))
    }

    fn all_failed<I, O>(
        &self,
        set: &TunableSet<K, I, O>,
        key: &K,
        failures: Vec<(Arc<str>, Failure)>,
    ) -> TuneError {
        TuneError::AllFailed {
            set: set.name().clone(),
            key: format!("{key:?}"),
            failures,
        }
    }

    /// Begins to tune a key, to be gone on with by [`Tuning::go_on`]: on a driven device between pumps. Never waits.
    pub fn begin<I: Clone, O>(
        &self,
        set: &TunableSet<K, I, O>,
        key: &K,
        inputs: &I,
    ) -> Begun<K, I, O> {
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

    /// Writes all that is known, with what others have written meanwhile.
    fn keep(&self, store: &dyn Store) -> Result<(), StoreError> {
        let Some((_, identity)) = &self.shared.store else {
            return Ok(());
        };
        store.update(&mut |bytes| {
            let read = bytes.map(|bytes| persist::read::<K>(&bytes, identity));
            let others = read
                .and_then(Result::ok)
                .map_or(Vec::new(), |read| read.kept);
            let known = self.read();
            let others = others.iter().filter(|kept| !known.contains_key(&kept.key));
            let mut text = persist::header(identity);
            for kept in others {
                text.extend(persist::entry(&kept.key, kept.set, &kept.outcome));
            }
            for (key, settled) in known.iter() {
                text.extend(persist::entry(key, settled.set, &settled.outcome));
            }
            text.into_bytes()
        })
    }

    /// All that is known, to be given to programs on such a device: a file beside them, say.
    pub fn export(&self, identity: &Identity) -> Vec<u8> {
        let mut text = persist::header(identity);
        for (key, settled) in self.read().iter() {
            text.extend(persist::entry(key, settled.set, &settled.outcome));
        }
        text.into_bytes()
    }

    /// Remembers what was exported, but for keys that were tuned here. Each is checked as a stored one.
    ///
    /// # Errors
    /// It is no export, or one of another device.
    pub fn import(&self, bundle: &[u8], here: &Identity) -> Result<Loaded, StoreError> {
        persist::read(bundle, here).map(|read| self.take(read))
    }
}

/// What came of the wish to tune a key.
pub enum Begun<K: TuneKey, I, O> {
    /// It is known already.
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
                let reason = |candidate: crate::outcome::Candidate| {
                    Some((candidate.name, candidate.result.err()?))
                };
                let failures = failed.into_iter().filter_map(reason).collect();
                let failed = match set.levels(&self.key).is_empty() {
                    true => TuneError::NoCandidates {
                        set: set.name().clone(),
                        key: format!("{:?}", self.key),
                    },
                    false => self.tuner.all_failed(set, &self.key, failures),
                };
                Progress::Done(Err(failed))
            }
        }
    }
}

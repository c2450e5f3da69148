//! The tuner: what is known of each key.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::choice::Outcome;
use crate::choice::{Choice, Chosen, Fastest};
use crate::encoding::Identity;
use crate::error::TuneError;
use crate::flights::{Flights, lock};
use crate::race::Effort;
use crate::set::{Checksum, TunableSet};
use crate::store::Store;

/// A key: what a choice depends on.
pub trait TuneKey:
    Hash + Eq + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> TuneKey for K where
    K: Hash + Eq + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

/// The choice that is known for a key.
pub(crate) struct KnownChoice {
    pub(crate) index: usize,
    /// The checksum of the set that it was chosen from.
    pub(crate) set: Checksum,
    /// Whether the checksum was compared with that of the set in this program. A stored choice may be of another set.
    pub(crate) checked: bool,
    pub(crate) outcome: Arc<Outcome>,
}

/// The known choices. Lookups are on hot paths, so the hasher is fast; each tuner has its own seed.
pub(crate) type Choices<K> = HashMap<K, KnownChoice, foldhash::fast::RandomState>;

pub(crate) struct Shared<K> {
    choices: RwLock<Choices<K>>,
    /// Keys whose stored choice must be removed from the store.
    pub(crate) forgotten: Mutex<HashSet<K>>,
    pub(crate) flights: Flights<K>,
    pub(crate) store: Option<(Box<dyn Store>, Identity)>,
    pub(crate) effort: Effort,
}

/// Knows the fastest candidate for each key, and tunes keys that it does not know.
///
/// Cheap to clone: clones share what they know. Any thread may use it.
///
/// ```
/// use millstream_tune::{Chosen, Fastest, Policy, Tunable, TunableSet, Tuner};
/// # use std::time::Duration;
/// # use millstream_tune::{Failure, Measure};
/// # struct Clock;
/// # impl Measure for Clock {
/// #     fn clock(&self) -> &str { "none" }
/// #     fn start(&mut self, work: &mut dyn FnMut() -> Result<(), Failure>) -> Result<(), Failure> { work() }
/// #     fn poll(&mut self) -> Result<Option<Duration>, Failure> { Ok(Some(Duration::from_micros(1))) }
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
    pub(crate) shared: Arc<Shared<K>>,
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

impl<K: TuneKey> Tuner<K> {
    /// Creates a tuner that remembers its choices as long as it lives.
    pub fn new() -> Self {
        Self::of(None, Effort::default())
    }

    pub(crate) fn of(store: Option<(Box<dyn Store>, Identity)>, effort: Effort) -> Self {
        Self {
            shared: Arc::new(Shared {
                choices: RwLock::default(),
                forgotten: Mutex::default(),
                flights: Flights::default(),
                store,
                effort,
            }),
        }
    }

    /// Creates a tuner with this effort of measuring.
    pub fn with_effort(effort: Effort) -> Self {
        Self::of(None, effort)
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Choices<K>> {
        // A panic leaves no partial change, since each change is one insertion, so a poisoned lock may be used.
        self.shared
            .choices
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Choices<K>> {
        self.shared
            .choices
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is known of a key. Never waits for a tuning.
    pub fn fastest(&self, key: &K) -> Fastest {
        let known = || match self.read().get(key)? {
            known if known.checked => Some(Fastest::Hit(known.index)),
            _ => Some(Fastest::Unchecked),
        };
        known().unwrap_or_else(|| match self.shared.flights.is_in_flight(key) {
            true => Fastest::Pending,
            // A tuning may have ended between the two reads.
            false => known().unwrap_or(Fastest::Miss),
        })
    }

    /// Validates a stored choice: keeps it if it was chosen from these candidates, and removes it otherwise. Returns
    /// what is known afterwards.
    pub fn validate_checksum<I, O>(&self, key: &K, set: &TunableSet<K, I, O>) -> Fastest {
        match self.known(key, set) {
            Some(choice) => Fastest::Hit(choice.index),
            None => self.fastest(key),
        }
    }

    /// Returns the known choice for a key, if it is of this set, and removes one of another set.
    pub(crate) fn known<I, O>(&self, key: &K, set: &TunableSet<K, I, O>) -> Option<Choice> {
        let mut stale = None;
        let known = self.find(key, set, &mut stale);
        Self::report_stale(set, stale);
        known
    }

    /// Says that a stored choice was removed. Outside of all locks: the key's own code and a subscriber may use the tuner.
    pub(crate) fn report_stale<I, O>(set: &TunableSet<K, I, O>, stale: Option<(K, KnownChoice)>) {
        if let Some((key, _)) = stale {
            tracing::info!(target: "millstream::tune", ?key, set = %set.name(), "the stored choice is of another set of candidates; the key will be tuned again");
        }
    }

    /// As [`Tuner::known`], without a report: a choice of another set moves to `stale`. Called under the lock of the flights,
    /// so it takes none of their locks.
    pub(crate) fn find<I, O>(
        &self,
        key: &K,
        set: &TunableSet<K, I, O>,
        stale: &mut Option<(K, KnownChoice)>,
    ) -> Option<Choice> {
        let choice = |index| Choice {
            index,
            by: Chosen::Known,
        };
        let is_of_set =
            |known: &KnownChoice| known.set == set.checksum() && known.index < set.len();
        match self.read().get(key)? {
            known if known.checked && is_of_set(known) => return Some(choice(known.index)),
            _ => {}
        }
        let mut all = self.write();
        let known = all.get_mut(key)?;
        if is_of_set(known) {
            known.checked = true;
            return Some(choice(known.index));
        }
        *stale = all.remove_entry(key);
        None
    }

    /// Returns the result of the last tuning of a key.
    pub fn outcome(&self, key: &K) -> Option<Arc<Outcome>> {
        self.read().get(key).map(|known| known.outcome.clone())
    }

    /// Forgets the choice for a key: the next use tunes it again. A store drops the choice at its next update.
    pub fn forget(&self, key: &K) {
        self.write().remove(key);
        self.forget_stored(key);
    }

    fn forget_stored(&self, key: &K) {
        if self.shared.store.is_some() {
            lock(&self.shared.forgotten).insert(key.clone());
        }
    }

    /// Forgets the choice for a key if it is this candidate. Another thread may have found a better one meanwhile.
    pub(crate) fn forget_choice(&self, key: &K, index: usize) {
        let mut all = self.write();
        if all.get(key).is_some_and(|known| known.index == index) {
            all.remove(key);
            drop(all);
            self.forget_stored(key);
        }
    }
}

/// Returns the error for a key without candidates.
pub(crate) fn no_candidates<K: TuneKey, I, O>(set: &TunableSet<K, I, O>, key: &K) -> TuneError {
    TuneError::about(set.name(), key, |set, key| TuneError::NoCandidates {
        set,
        key,
    })
}

/// Returns the only candidate, which needs no measuring.
pub(crate) fn only_candidate<K, I, O>(set: &TunableSet<K, I, O>) -> Option<Choice> {
    (set.len() == 1).then_some(Choice {
        index: 0,
        by: Chosen::Alone,
    })
}

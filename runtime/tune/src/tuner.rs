//! The tuner: what is known of each key, and how it comes to be known.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use millstream_sync::flight::Flights;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::choice::{Choice, Chosen, Fastest};
use crate::error::{Failure, TuneError};
use crate::outcome::Outcome;
use crate::persist::Identity;
use crate::race::Effort;
use crate::set::{Checksum, TunableSet};
use crate::store::Store;
use crate::threads::Threads;

/// What a key may be.
pub trait TuneKey:
    Hash + Eq + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> TuneKey for K where
    K: Hash + Eq + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

pub(crate) struct Settled {
    pub(crate) index: usize,
    /// Of the set that it was chosen from.
    pub(crate) set: Checksum,
    /// Somebody has asked for it with that set. Until then nobody knows whether there is such a set here.
    pub(crate) checked: bool,
    pub(crate) outcome: Arc<Outcome>,
}

/// Looked up on hot paths: by a hash that is quick, and seeded anew for each tuner.
pub(crate) type Known<K> = HashMap<K, Settled, foldhash::fast::RandomState>;

pub(crate) struct Shared<K> {
    settled: RwLock<Known<K>>,
    /// Keys whose last tuning found nothing that works, for those who waited for it.
    pub(crate) failed: Mutex<HashMap<K, TuneError>>,
    /// Keys whose stored choice is not to be kept any more.
    pub(crate) forgotten: Mutex<HashSet<K>>,
    pub(crate) flights: Flights<K>,
    pub(crate) threads: Mutex<Threads<K>>,
    pub(crate) store: Option<(Box<dyn Store>, Identity)>,
    pub(crate) effort: Effort,
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
    /// One that remembers as long as it lives.
    pub fn new() -> Self {
        Self::of(None, Effort::default())
    }

    pub(crate) fn of(store: Option<(Box<dyn Store>, Identity)>, effort: Effort) -> Self {
        Self {
            shared: Arc::new(Shared {
                settled: RwLock::default(),
                failed: Mutex::default(),
                forgotten: Mutex::default(),
                flights: Flights::default(),
                threads: Mutex::default(),
                store,
                effort,
            }),
        }
    }

    /// One that measures with more, or with less, care.
    pub fn with_effort(effort: Effort) -> Self {
        Self::of(None, effort)
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Known<K>> {
        // Nothing is half done where somebody panics: each change is one insertion.
        self.shared
            .settled
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Known<K>> {
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

    /// What is known of a key, of this set. Asked under the lock of the flights, too, and so takes none of theirs.
    pub(crate) fn known<I, O>(&self, key: &K, set: &TunableSet<K, I, O>) -> Option<Choice> {
        let known = |index| Choice {
            index,
            by: Chosen::Known,
        };
        let is_of_set =
            |settled: &Settled| settled.set == set.checksum() && settled.index < set.len();
        match self.read().get(key)? {
            settled if settled.checked && is_of_set(settled) => return Some(known(settled.index)),
            _ => {}
        }
        let mut all = self.write();
        let settled = all.get_mut(key)?;
        if is_of_set(settled) {
            settled.checked = true;
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

    /// Forgets a key: it is tuned anew where it is asked for next. A store forgets it when it is written next.
    pub fn forget(&self, key: &K) {
        self.write().remove(key);
        self.forget_stored(key);
    }

    fn forget_stored(&self, key: &K) {
        if self.shared.store.is_some() {
            lock(&self.shared.forgotten).insert(key.clone());
        }
    }

    /// Forgets that this candidate is a key's, if it is: somebody else may have found a better one meanwhile.
    pub(crate) fn forget_choice(&self, key: &K, index: usize) {
        let mut all = self.write();
        if all.get(key).is_some_and(|settled| settled.index == index) {
            all.remove(key);
            drop(all);
            self.forget_stored(key);
        }
    }

    pub(crate) fn all_failed<I, O>(
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
}

/// Nothing is half done where somebody panics: each change is one call of a map.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// That there is nothing to choose from.
pub(crate) fn no_candidates<K: TuneKey, I, O>(set: &TunableSet<K, I, O>, key: &K) -> TuneError {
    TuneError::NoCandidates {
        set: set.name().clone(),
        key: format!("{key:?}"),
    }
}

/// The one candidate of these that may be tried, which nobody has to measure.
pub(crate) fn alone(levels: &[Vec<usize>]) -> Option<Choice> {
    match levels {
        [only] if only.len() == 1 => Some(Choice {
            index: only[0],
            by: Chosen::Alone,
        }),
        _ => None,
    }
}

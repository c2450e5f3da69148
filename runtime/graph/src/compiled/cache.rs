//! A cache of compiled schedules and kernels.
//!
//! There are two levels. A *schedule* is looked up by its form, and a *kernel* by its program and blocking. Programs
//! contain no lengths and no constants, so few kernels serve many expressions.
//!
//! # States of an entry
//! ```text
//!  absent ──miss: compiled without the lock, put──► present ──hit──► present (most recently used)
//!                                                      │
//!                                                      ├── the cache is full, least recently used ──► evicted
//!                                                      └── of another device or epoch ──► a miss; `put` replaces it
//! ```
//! # Two threads, one key
//! ```text
//!  thread 1                          thread 2
//!  get(K): miss
//!                                    get(K): miss
//!  compile K -> k1
//!                                    compile K -> k2
//!  put(K, k1)
//!                                    put(K, k2): returns k1, dropped without the lock
//!  uses k1                           uses k2
//! ```
//! Both handles are valid and equal in effect; one compilation is wasted. No lock is held while a kernel compiles,
//! which takes long, or while a value is dropped, which may drop closures of users. A failed compilation stores
//! nothing.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_client::{ComputeClient, KernelHandle};
use millstream_ir::{Blocking, Program};
use millstream_protocol::Kernel;

use crate::compiled::Compiled;
use crate::compiled::form::Form;
use crate::error::{By, GraphError, ScheduleError};
use crate::kernel_name::kernel_name;
use crate::schedule::Steps;
#[cfg(feature = "tune")]
use crate::tuner::GraphTuner;

/// The default number of kernels of a cache.
const KERNELS_MAX: usize = 1024;

/// The number of kernels of a cache for each of its schedules: a schedule has several kernels.
const KERNELS_PER_SCHEDULE: usize = 8;

/// A cache of compiled schedules and kernels for one device. It is `Send + Sync`; share one among all threads.
///
/// A kernel is looked up by its program, which contains no lengths and no constants: a longer sequence or another
/// learning rate needs no new kernel. A schedule is looked up by its form: an expression that is built anew from other
/// buffers needs no new recording. The temporaries of a shared recording count as memory of the client that compiled it
/// first. When the cache is full, it evicts the least recently used entries.
#[derive(Debug)]
pub struct GraphCache {
    kernels: Mutex<LruMap<(Arc<Program>, Blocking), KernelHandle>>,
    schedules: Mutex<LruMap<Form, Arc<Compiled>>>,
    #[cfg(feature = "tune")]
    pub(crate) tuner: Option<GraphTuner>,
}

/// A map with a bounded number of entries that evicts the least recently used.
#[derive(Debug)]
struct LruMap<K, V> {
    values: HashMap<K, (V, u64)>,
    capacity: usize,
    /// The number of lookups: the clock of `values`.
    lookups: u64,
    hits: u64,
}

impl<K: Hash + Eq + Clone, V: Clone> LruMap<K, V> {
    fn new(capacity: usize) -> Mutex<Self> {
        Mutex::new(Self {
            values: HashMap::new(),
            capacity: capacity.max(1),
            lookups: 0,
            hits: 0,
        })
    }

    /// Returns the value of a key, if it is valid.
    fn get(&mut self, key: &K, is_valid: impl FnOnce(&V) -> bool) -> Option<V> {
        self.lookups += 1;
        let (value, last) = self
            .values
            .get_mut(key)
            .filter(|(value, _)| is_valid(value))?;
        *last = self.lookups;
        self.hits += 1;
        Some(value.clone())
    }

    /// Inserts a value. Returns the entry that it replaces or evicts, to be dropped without the lock.
    fn put(&mut self, key: K, value: V) -> Option<(K, (V, u64))> {
        let before = self.values.remove_entry(&key);
        let is_full = self.values.len() >= self.capacity;
        let least_recent = is_full
            .then(|| self.values.iter().min_by_key(|(_, (_, last))| *last))
            .flatten()
            .map(|(key, _)| key.clone());
        let evicted = least_recent.and_then(|key| self.values.remove_entry(&key));
        self.values.insert(key, (value, self.lookups));
        before.or(evicted)
    }
}

/// Statistics of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CacheStats {
    /// The number of kernel lookups.
    pub kernel_lookups: u64,
    /// The number of kernel lookups that compiled the kernel.
    pub kernels_compiled: u64,
    /// The number of cached kernels.
    pub cached_kernels: usize,
    /// The number of schedule lookups.
    pub schedule_lookups: u64,
    /// The number of schedule lookups that planned and recorded the schedule.
    pub schedules_recorded: u64,
    /// The number of cached schedules.
    pub cached_schedules: usize,
}

impl Default for GraphCache {
    fn default() -> Self {
        Self::new(KERNELS_MAX)
    }
}

impl GraphCache {
    /// Creates a cache of at most `kernels` kernels, and an eighth as many schedules, at least one of each.
    pub fn new(kernels: usize) -> Self {
        Self {
            kernels: LruMap::new(kernels),
            schedules: LruMap::new(kernels / KERNELS_PER_SCHEDULE),
            #[cfg(feature = "tune")]
            tuner: None,
        }
    }

    /// Returns the statistics of this cache.
    pub fn stats(&self) -> CacheStats {
        let kernels = lock(&self.kernels);
        let schedules = lock(&self.schedules);
        CacheStats {
            kernel_lookups: kernels.lookups,
            kernels_compiled: kernels.lookups - kernels.hits,
            cached_kernels: kernels.values.len(),
            schedule_lookups: schedules.lookups,
            schedules_recorded: schedules.lookups - schedules.hits,
            cached_schedules: schedules.values.len(),
        }
    }

    /// Returns the schedule of a form, if it is compiled for this client's device.
    pub(crate) fn schedule(&self, client: &ComputeClient, form: &Form) -> Option<Arc<Compiled>> {
        lock(&self.schedules).get(form, |compiled| compiled.is_for(client))
    }

    pub(crate) fn insert(&self, form: Form, compiled: Arc<Compiled>) {
        let evicted = lock(&self.schedules).put(form, compiled);
        drop(evicted);
    }

    /// Returns the blocking of each item of a schedule: the tuner's choice, or the default.
    pub(crate) fn blockings(
        &self,
        client: &ComputeClient,
        steps: &Steps,
    ) -> Result<Vec<Blocking>, ScheduleError> {
        #[cfg(feature = "tune")]
        if let Some(tuner) = &self.tuner {
            return tuner.blockings(client, steps);
        }
        let _ = client;
        Ok(vec![Blocking::DEFAULT; steps.items.len()])
    }

    /// Returns the kernel of a program; compiles it on a miss. The lock is not held during compilation, so two threads
    /// that miss the same kernel may both compile it.
    pub(crate) fn kernel(
        &self,
        client: &ComputeClient,
        program: &Arc<Program>,
        blocking: Blocking,
    ) -> Result<KernelHandle, ScheduleError> {
        let key = (program.clone(), blocking);
        let cached = lock(&self.kernels).get(&key, |kernel| client.knows(kernel));
        if let Some(kernel) = cached {
            return Ok(kernel);
        }
        let span = tracing::debug_span!("compile", program = %kernel_name(program));
        let _entered = span.enter();
        let kernel =
            Kernel::from_program(kernel_name(program), program.clone()).map_err(|why| {
                ScheduleError::Graph(GraphError::new(By::new("compile"), [], why.to_string()))
            })?;
        let handle = client.kernel(kernel.with(blocking))?;
        let evicted = lock(&self.kernels).put(key, handle.clone());
        drop(evicted);
        Ok(handle)
    }
}

/// Locks a cache level. No code panics half-way with the lock held, so a poisoned lock is intact.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! What was compiled before, on two levels: whole schedules, and kernels. Kernels are programs without lengths and constants, so that
//! few of them do much.

use std::collections::HashMap;
use std::hash::Hash;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_client::{ComputeClient, KernelHandle};
use millstream_ir::{Blocking, Program};
use millstream_protocol::kernel::Kernel;

use crate::compiled::Compiled;
use crate::compiled::form::Form;
use crate::error::{GraphError, ScheduleError, Why};
use crate::kernel_name::kernel_name;
use crate::memory::Memory;
use crate::schedule::Steps;
#[cfg(feature = "tune")]
use crate::tuner::GraphTuner;

/// Most kernels that a cache keeps, unless it is told otherwise.
const KERNELS: usize = 1024;

/// Most schedules that a cache keeps for each kernel that it may: one has several.
const SCHEDULES_SHARE: usize = 8;

/// Compiled schedules and kernels of one device, held by whoever compiles. `Send + Sync`; share one among all threads.
///
/// A kernel is found by its program, which holds no lengths and no constants: a longer sequence or another learning rate is a kernel that
/// is there already. A schedule is found by its form: an expression that is built anew, of other buffers, is one that is recorded
/// already; its temporaries count as memory of the client that compiled it first. When there are more than the cache keeps, those that were not asked for longest are let go.
#[derive(Debug)]
pub struct GraphCache {
    kernels: Mutex<Kept<(Arc<Program>, Blocking), KernelHandle>>,
    schedules: Mutex<Kept<Form, Arc<Compiled>>>,
    #[cfg(feature = "tune")]
    pub(crate) tuner: Option<GraphTuner>,
}

/// Values by key, up to a number of them.
#[derive(Debug)]
struct Kept<K, V> {
    values: HashMap<K, (V, u64)>,
    capacity: usize,
    /// Counts what is asked, to tell what was not for long.
    asked: u64,
    found: u64,
}

impl<K: Hash + Eq + Clone, V: Clone> Kept<K, V> {
    fn new(capacity: usize) -> Mutex<Self> {
        Mutex::new(Self {
            values: HashMap::new(),
            capacity: capacity.max(1),
            asked: 0,
            found: 0,
        })
    }

    /// What is kept for a key, if it is any good.
    fn get(&mut self, key: &K, is_good: impl FnOnce(&V) -> bool) -> Option<V> {
        self.asked += 1;
        let (value, last) = self
            .values
            .get_mut(key)
            .filter(|(value, _)| is_good(value))?;
        *last = self.asked;
        self.found += 1;
        Some(value.clone())
    }

    /// Keeps a value. What it takes the place of is returned, to be dropped without the lock.
    fn put(&mut self, key: K, value: V) -> Option<V> {
        let is_full = self.values.len() >= self.capacity && !self.values.contains_key(&key);
        let oldest = is_full
            .then(|| self.values.iter().min_by_key(|(_, (_, last))| *last))
            .flatten()
            .map(|(key, _)| key.clone());
        let let_go = oldest.and_then(|key| self.values.remove(&key));
        let before = self.values.insert(key, (value, self.asked));
        let_go.or(before).map(|(value, _)| value)
    }
}

/// What a cache has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CacheStats {
    /// Kernels that were asked for.
    pub kernels_asked: u64,
    /// Those of them that had to be compiled.
    pub kernels_compiled: u64,
    /// Kernels that are kept.
    pub kernels_kept: usize,
    /// Schedules that were asked for.
    pub schedules_asked: u64,
    /// Those of them that had to be planned and recorded.
    pub schedules_recorded: u64,
    /// Schedules that are kept.
    pub schedules_kept: usize,
}

impl Default for GraphCache {
    fn default() -> Self {
        Self::new(KERNELS)
    }
}

impl GraphCache {
    /// A cache of at most so many kernels, and an eighth as many schedules, of each at least one.
    pub fn new(kernels: usize) -> Self {
        Self {
            kernels: Kept::new(kernels),
            schedules: Kept::new(kernels / SCHEDULES_SHARE),
            #[cfg(feature = "tune")]
            tuner: None,
        }
    }

    /// What it has done so far.
    pub fn stats(&self) -> CacheStats {
        let kernels = lock(&self.kernels);
        let schedules = lock(&self.schedules);
        CacheStats {
            kernels_asked: kernels.asked,
            kernels_compiled: kernels.asked - kernels.found,
            kernels_kept: kernels.values.len(),
            schedules_asked: schedules.asked,
            schedules_recorded: schedules.asked - schedules.found,
            schedules_kept: schedules.values.len(),
        }
    }

    /// The schedule of a form, if it was compiled for this client's device.
    pub(crate) fn schedule(&self, client: &ComputeClient, form: &Form) -> Option<Arc<Compiled>> {
        lock(&self.schedules).get(form, |compiled| compiled.is_for(client))
    }

    pub(crate) fn keep(&self, form: Form, compiled: Arc<Compiled>) {
        let let_go = lock(&self.schedules).put(form, compiled);
        drop(let_go);
    }

    /// How each item of a schedule is cut up: as its tuner says, if it has one.
    pub(crate) fn blockings(
        &self,
        client: &ComputeClient,
        steps: &Steps,
        memory: &Memory,
    ) -> Result<Vec<Blocking>, ScheduleError> {
        #[cfg(feature = "tune")]
        if let Some(tuner) = &self.tuner {
            return tuner.blockings(client, steps, memory);
        }
        let _ = (client, memory);
        Ok(vec![Blocking::USUAL; steps.items.len()])
    }

    /// The kernel of a program, compiled if it is not there. The lock is not held while it is compiled: two threads that ask
    /// for the same one at once may both compile it.
    pub(crate) fn kernel(
        &self,
        client: &ComputeClient,
        program: &Arc<Program>,
        blocking: Blocking,
    ) -> Result<KernelHandle, ScheduleError> {
        let key = (program.clone(), blocking);
        let kept = lock(&self.kernels).get(&key, |kernel| client.knows(kernel));
        if let Some(kernel) = kept {
            return Ok(kernel);
        }
        let span = tracing::debug_span!("compile", program = %kernel_name(program));
        let _entered = span.enter();
        let kernel =
            Kernel::from_program(kernel_name(program), program.clone()).map_err(|why| {
                let (why, at) = (Why::Kernel(why.to_string()), Location::caller());
                ScheduleError::Graph(GraphError::new("compile", [], why, at))
            })?;
        let handle = client.kernel(kernel.with(blocking))?;
        let let_go = lock(&self.kernels).put(key, handle.clone());
        drop(let_go);
        Ok(handle)
    }
}

/// Nothing that runs with the lock may panic half-way, so a poisoned one is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

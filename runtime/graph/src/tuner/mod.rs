//! Tuning: chooses the fastest blocking of each program for the lengths of its launch, when a schedule is compiled.

use std::collections::HashMap;
use std::fmt::{self, Display};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use millstream_client::arguments::{CubeCount, bind};
use millstream_client::handle::Handle;
use millstream_client::{ComputeClient, KernelHandle, Stream};
use millstream_ir::{Blocking, Program};
use millstream_protocol::{Error, Kernel};
use millstream_tune::{
    Effort, Failure, Fastest, Policy, StreamClock, Tunable, TunableSet, TuneError, Tuner,
};
use serde::{Deserialize, Serialize};

use crate::error::ScheduleError;
use crate::kernel_name::kernel_name;
use crate::schedule::Steps;
use crate::schedule::item::{Item, WordValue};

/// The key of a choice: a program with the lengths and strides of its launch.
///
/// Lengths up to 64 are distinguished; longer ones are rounded to a quarter of their power of two, and neighbours share
/// a choice. A length that depends on a symbol counts as its maximum.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct ProgramKey {
    /// The name of the kernel.
    pub(crate) name: String,
    pub(crate) program: u64,
    pub(crate) sizes: Vec<i64>,
}

/// Chooses the fastest [`Blocking`] of each program of a schedule. An unknown program is measured: each blocking runs
/// on separate memory, timed by the device's clock. Use one tuner for each device, since a choice is valid for one
/// device only.
///
/// A [`GraphCache`](crate::GraphCache) with a tuner uses it in
/// [`Schedule::compile_with_cache`](crate::Schedule::compile_with_cache). A [`Policy`] decides what happens there to an
/// unknown program; [`Schedule::tune`](crate::Schedule::tune) tunes when you call it. Results are as accurate, but sums
/// may be added in another order: if you need equal bits, ship choices ([`Tuner::export`]) and freeze the tuner.
///
/// ```
/// use millstream_client::ComputeClient;
/// use millstream_graph::{DType, Graph, GraphCache, GraphTuner, Schedule, ScheduleError};
/// use millstream_tune::Policy;
///
/// # fn f(client: &ComputeClient) -> Result<(), ScheduleError> {
/// let cache = GraphCache::default().tuned_by(GraphTuner::new().policy(Policy::UseDefault));
/// let graph = Graph::new();
/// let (a, b) = (graph.input("a", DType::F32, [64, 512]), graph.input("b", DType::F32, [512, 2048]));
/// let schedule = Schedule::create_one(&a.matmul(&b))?;
/// // Does not measure: unknown programs run with the default blocking.
/// let usual = schedule.compile_with_cache(client, &cache)?;
/// // On a thread that may block: up to a tenth of a second for each program.
/// for tuned in schedule.tune(client, &cache)? {
///     println!("{tuned}");
/// }
/// let fast = schedule.compile_with_cache(client, &cache)?;
/// # Ok(())
/// # }
/// ```
pub struct GraphTuner {
    tuner: Tuner<ProgramKey>,
    pub(crate) policy: Policy,
}

/// The default measuring time for a program: compiling a schedule of several programs should take at most one or two
/// seconds.
const BUDGET: Duration = Duration::from_millis(100);

impl Default for GraphTuner {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for GraphTuner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GraphTuner({:?})", self.policy)
    }
}

impl GraphTuner {
    /// Creates a tuner that measures when a schedule is compiled, and keeps its choices in memory.
    pub fn new() -> Self {
        Self::with(Tuner::with_effort(Effort::default().budget(BUDGET)))
    }

    /// Creates a graph tuner around this tuner, for example one with a store or with imported choices.
    pub fn with(tuner: Tuner<ProgramKey>) -> Self {
        Self {
            tuner,
            policy: Policy::Wait,
        }
    }

    /// Sets what happens to an unknown program when a schedule is compiled.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Returns the underlying tuner.
    pub fn tuner(&self) -> &Tuner<ProgramKey> {
        &self.tuner
    }

    /// Returns the blocking of each item.
    pub(crate) fn blockings(
        &self,
        client: &ComputeClient,
        steps: &Steps,
    ) -> Result<Vec<Blocking>, ScheduleError> {
        let blocking = |item| {
            let program = TunableProgram::new(client, steps, item);
            program.map_or(Ok(Blocking::DEFAULT), |program| {
                program.blocking(self, client, self.policy)
            })
        };
        steps.items.iter().map(blocking).collect()
    }

    /// Returns the index of the fastest candidate of a set: as the tuner knows, or as it measures now if the policy
    /// allows. `candidates` makes them, the default first, for a key that is not known. If tuning fails, it is the
    /// default.
    pub(crate) fn fastest<R>(
        &self,
        (set, key): (&'static str, &ProgramKey),
        client: &ComputeClient,
        policy: Policy,
        candidates: impl FnOnce(&Stream) -> Result<Vec<(String, R)>, ScheduleError>,
    ) -> Result<usize, ScheduleError>
    where
        R: Fn(()) -> Result<(), Failure> + Send + Sync + 'static,
    {
        if let Fastest::Hit(index) = self.tuner.fastest(key) {
            return Ok(index);
        }
        let stream = client.new_stream();
        let mut set = TunableSet::new(set, |_: &ProgramKey, (): &()| ());
        for (name, run) in candidates(&stream)? {
            set = set.with(Tunable::new(name, run));
        }
        let mut clock = StreamClock::new(&stream);
        match self.tuner.choose(&set, key, &(), &mut clock, policy) {
            Ok(choice) => Ok(choice.index),
            Err(why @ TuneError::Frozen { .. }) => Err(ScheduleError::Tuning(why.to_string())),
            Err(why) => {
                tracing::warn!(target: "millstream::tune", %why, "tuning failed; using the default");
                Ok(0)
            }
        }
    }
}

/// Returns the hash of a program. It is equal in every process with the same hasher; otherwise the program is tuned
/// again.
pub(crate) fn hash_of(program: &Program) -> u64 {
    let mut hasher = DefaultHasher::new();
    program.hash(&mut hasher);
    hasher.finish()
}

/// A program of a schedule that has several blockings, with the arguments of its launch.
pub(crate) struct TunableProgram {
    pub(crate) key: ProgramKey,
    program: Arc<Program>,
    /// The blockings, the default first.
    blockings: Vec<Blocking>,
    /// The number of bytes and the fill byte of each buffer.
    buffers: Vec<(u64, u8)>,
    /// The buffer of each binding.
    bindings: Vec<usize>,
    words: Vec<u64>,
}

impl TunableProgram {
    /// Returns `None` if there is no choice, or if a length overflows.
    pub(crate) fn new(client: &ComputeClient, steps: &Steps, item: &Item) -> Option<Self> {
        let program = item.program()?;
        let others = client.blockings(program);
        if others.is_empty() {
            return None;
        }
        let key = ProgramKey {
            name: kernel_name(program),
            program: hash_of(program),
            sizes: sizes(item)?,
        };
        let mut known = HashMap::new();
        let mut buffers = Vec::new();
        let bound = item.bound().zip(program.buffers());
        let bindings = bound.map(|((_, node), (dtype, _))| {
            *known.entry(steps.storage(node)).or_insert_with(|| {
                // Index 0 is always valid.
                let fill = if dtype.is_float() { FILL_BYTE } else { 0 };
                buffers.push((steps.bytes(node), fill));
                buffers.len() - 1
            })
        });
        let bindings = bindings.collect();
        let words = item.words.iter().map(|word| match word {
            WordValue::Bits(bits) => Some(*bits),
            WordValue::Size(size) => size.max().map(|size| size as u64),
            WordValue::Scalar(scalar) => Some(scalar.bits()),
        });
        Some(Self {
            key,
            program: program.clone(),
            blockings: [Blocking::DEFAULT].into_iter().chain(others).collect(),
            words: words.collect::<Option<_>>()?,
            buffers,
            bindings,
        })
    }

    pub(crate) fn blocking(
        self,
        tuner: &GraphTuner,
        client: &ComputeClient,
        policy: Policy,
    ) -> Result<Blocking, ScheduleError> {
        let this = Arc::new(self);
        let candidates = |stream: &Stream| {
            let memory = TrialMemory::new(stream, this.buffers.clone());
            let candidate = |blocking: &Blocking| {
                let (prepared, launched, blocking) = (this.clone(), this.clone(), *blocking);
                let run = memory.clone().candidate(
                    move |stream| prepared.prepare(stream, blocking),
                    move |stream, kernel, buffers| launched.launch(stream, kernel, buffers),
                );
                (blocking.to_string(), run)
            };
            Ok(this.blockings.iter().map(candidate).collect())
        };
        let index = tuner.fastest(("graph", &this.key), client, policy, candidates)?;
        Ok(this.blockings.get(index).copied().unwrap_or_default())
    }

    fn prepare(&self, stream: &Stream, blocking: Blocking) -> Result<KernelHandle, Failure> {
        let kernel = Kernel::from_program(kernel_name(&self.program), self.program.clone());
        let kernel = kernel.map_err(Failure::new)?.with(blocking);
        stream.client().kernel(kernel).map_err(Failure::new)
    }

    fn launch(
        &self,
        stream: &Stream,
        kernel: &KernelHandle,
        buffers: &[Handle<u8>],
    ) -> Result<(), Failure> {
        let specs = kernel.kernel().signature().bindings();
        let bindings = self.bindings.iter().zip(specs);
        let bindings = bindings.map(|(buffer, spec)| bind(&buffers[*buffer], spec.access));
        let bindings: Vec<_> = bindings.collect();
        let launched = stream.launch_words(kernel, CubeCount::single(), &bindings, &self.words);
        launched.map_err(Failure::new)
    }
}

/// Returns the rounded lengths and strides of an item. `None` if one overflows.
pub(crate) fn sizes(item: &Item) -> Option<Vec<i64>> {
    let size = |word: &WordValue| match word {
        WordValue::Size(size) => size.max().map(rounded),
        WordValue::Bits(_) | WordValue::Scalar(_) => Some(0),
    };
    item.words.iter().map(size).collect()
}

/// Rounds up to the next of four steps in each power of two.
fn rounded(size: i64) -> i64 {
    if size <= 64 {
        return size;
    }
    let step = 1_i64 << (size.ilog2() - 2);
    size.checked_add(step - 1)
        .map_or(size, |sum| sum / step * step)
}

// Trials: candidates run on memory of their own, which the first one allocates.

/// The byte that fills float buffers, so that they hold normal numbers of every type: 0.75 as `f32`.
pub(crate) const FILL_BYTE: u8 = 0x3f;

/// The memory of the candidates of one choice.
pub(crate) struct TrialMemory {
    stream: Stream,
    /// The number of bytes and the fill byte of each buffer.
    sizes: Vec<(u64, u8)>,
    /// The buffers, or the error of their allocation.
    buffers: OnceLock<Result<Vec<Handle<u8>>, Failure>>,
}

impl TrialMemory {
    pub(crate) fn new(stream: &Stream, sizes: Vec<(u64, u8)>) -> Arc<Self> {
        Arc::new(Self {
            stream: stream.clone(),
            sizes,
            buffers: OnceLock::new(),
        })
    }

    fn allocate(&self) -> Result<Vec<Handle<u8>>, Error> {
        let filled = |(bytes, fill): &(u64, u8)| {
            let buffer = self.stream.empty::<u8>(*bytes as usize)?;
            self.stream.fill(&buffer, *fill)?;
            Ok(buffer)
        };
        self.sizes.iter().map(filled).collect()
    }

    /// Returns a candidate: `prepare` compiles it at its first run, and `run` submits one run on the buffers.
    pub(crate) fn candidate<T: Send + Sync, E: Display>(
        self: Arc<Self>,
        prepare: impl Fn(&Stream) -> Result<T, E> + Send + Sync,
        run: impl Fn(&Stream, &T, &[Handle<u8>]) -> Result<(), E> + Send + Sync,
    ) -> impl Fn(()) -> Result<(), Failure> + Send + Sync {
        let prepared: OnceLock<Result<T, Failure>> = OnceLock::new();
        move |()| {
            let allocate = || self.allocate().map_err(Failure::new);
            let buffers = self.buffers.get_or_init(allocate).as_ref();
            let buffers = buffers.map_err(Clone::clone)?;
            let prepare = || prepare(&self.stream).map_err(Failure::new);
            let prepared = prepared.get_or_init(prepare).as_ref();
            let prepared = prepared.map_err(Clone::clone)?;
            run(&self.stream, prepared, buffers).map_err(Failure::new)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn short_lengths_are_distinct_and_long_ones_round_to_quarters() {
        assert_eq!([0, -3, 63, 64].map(rounded), [0, -3, 63, 64]);
        assert_eq!([65, 80, 81, 128, 129].map(rounded), [80, 80, 96, 128, 160]);
        assert_eq!(rounded(i64::MAX), i64::MAX);
    }
}

//! What cuts programs up as is the fastest for their lengths: asked where schedules are compiled.

mod trial;

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream_client::{ComputeClient, Stream};
use millstream_ir::{Blocking, Program};
use millstream_tune::{
    Effort, Fastest, Policy, StreamClock, Tunable, TunableSet, TuneError, Tuner,
};
use serde::{Deserialize, Serialize};
pub(crate) use trial::ORDINARY;
use trial::{Scratch, Trial};

use crate::error::ScheduleError;
use crate::kernel_name::kernel_name;
use crate::memory::Memory;
use crate::schedule::Steps;
use crate::schedule::item::{Item, WordValue, Work};

/// What a choice is made for: a program, and lengths and strides of its launch.
///
/// Lengths up to 64 are told apart, longer ones by about a quarter: neighbours share a choice. A length that depends on a symbol counts as its
/// greatest.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct ProgramKey {
    /// What it does, in a few words.
    pub(crate) name: String,
    pub(crate) program: u64,
    pub(crate) sizes: Vec<i64>,
}

/// Knows which [`Blocking`] of each program of a schedule is the fastest, and finds it out where it does not: each way runs on memory of its
/// own, timed by the device's clock. One for each device: what is fast on one says nothing of another.
///
/// A [`GraphCache`](crate::GraphCache) that has one asks it in [`Schedule::compile_with_cache`](crate::Schedule::compile_with_cache). What it does there with a program that it does not know, a
/// [`Policy`] says; [`Schedule::tune`](crate::Schedule::tune) tunes at a time of your own. Results are as good, but sums may be added up in another order: where
/// the same bits matter, ship choices ([`Tuner::export`]) and freeze.
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
/// // No caller waits here: programs that are not known run with the default blocking.
/// let usual = schedule.compile_with_cache(client, &cache)?;
/// // On a thread that may: takes up to a tenth of a second for each program.
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
    /// Numbers of programs: to make one takes longer than to compile what is compiled.
    numbers: Mutex<HashMap<Arc<Program>, u64>>,
}

/// Most programs whose numbers are kept.
const NUMBERS: usize = 1024;

/// Measured time for a program, unless a tuner says otherwise: compiling a schedule of some programs should take no more than a second or two.
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
    /// One that tunes where schedules are compiled, and remembers as long as it lives.
    pub fn new() -> Self {
        Self::with(Tuner::with_effort(Effort::default().budget(BUDGET)))
    }

    /// One that asks this tuner: with a store, say, or with choices that were imported.
    pub fn with(tuner: Tuner<ProgramKey>) -> Self {
        Self {
            tuner,
            policy: Policy::Wait,
            numbers: Mutex::default(),
        }
    }

    /// Says what becomes of a program that is not known where a schedule is compiled.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// What it asks.
    pub fn tuner(&self) -> &Tuner<ProgramKey> {
        &self.tuner
    }

    /// How each item is cut up.
    pub(crate) fn blockings(
        &self,
        client: &ComputeClient,
        steps: &Steps,
        memory: &Memory,
    ) -> Result<Vec<Blocking>, ScheduleError> {
        let items = 0..steps.items.len();
        let blocking = |item| {
            let asked = Asked::new(self, client, (steps, memory), item);
            asked.map_or(Ok(Blocking::USUAL), |asked| {
                asked.blocking(self, client, self.policy)
            })
        };
        items.map(blocking).collect()
    }

    /// The index of the candidate that is to be used: the first, which is the usual way, where none can be tried.
    pub(crate) fn choose<I: Clone>(
        &self,
        set: &TunableSet<ProgramKey, I, ()>,
        key: &ProgramKey,
        inputs: &I,
        stream: &Stream,
        policy: Policy,
    ) -> Result<usize, ScheduleError> {
        let mut clock = StreamClock::new(stream);
        match self.tuner.choose(set, key, inputs, &mut clock, policy) {
            Ok(choice) => Ok(choice.index),
            Err(why @ TuneError::Frozen { .. }) => Err(ScheduleError::Tuning(why.to_string())),
            Err(why) => {
                tracing::warn!(target: "millstream::tune", %why, "it is done as usual");
                Ok(0)
            }
        }
    }

    pub(crate) fn number(&self, program: &Arc<Program>) -> u64 {
        // A panic leaves nothing half done.
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = numbers.get(program) {
            return *number;
        }
        if numbers.len() >= NUMBERS {
            numbers.clear();
        }
        // The same in every process that has the same code; where it is not, a program is tuned anew.
        let mut hasher = DefaultHasher::new();
        program.hash(&mut hasher);
        let number = hasher.finish();
        numbers.insert(program.clone(), number);
        number
    }
}

/// A program of a schedule that can be cut up in several ways.
pub(crate) struct Asked {
    pub(crate) key: ProgramKey,
    /// The usual one first.
    ways: Vec<Blocking>,
    trial: Trial,
}

impl Asked {
    /// None, if there is nothing to choose.
    pub(crate) fn new(
        tuner: &GraphTuner,
        client: &ComputeClient,
        (steps, memory): (&Steps, &Memory),
        index: usize,
    ) -> Option<Self> {
        let item = &steps.items[index];
        let Work::Program(program) = &item.work else {
            return None;
        };
        let program = memory.program(index, program);
        let others = client.blockings(program);
        if others.is_empty() {
            return None;
        }
        let key = ProgramKey {
            name: kernel_name(program),
            program: tuner.number(program),
            sizes: sizes(item)?,
        };
        Some(Self {
            key,
            ways: [Blocking::USUAL].into_iter().chain(others).collect(),
            trial: Trial::new(program, steps, memory, index)?,
        })
    }

    pub(crate) fn blocking(
        self,
        tuner: &GraphTuner,
        client: &ComputeClient,
        policy: Policy,
    ) -> Result<Blocking, ScheduleError> {
        let of = |index: usize| self.ways.get(index).copied().unwrap_or_default();
        if let Fastest::Hit(index) = tuner.tuner.fastest(&self.key) {
            return Ok(of(index));
        }
        let stream = client.new_stream();
        let (trial, scratch) = (self.trial.clone(), stream.clone());
        let mut set = TunableSet::new("graph", move |_: &ProgramKey, _: &Scratch| {
            trial.scratch(&scratch)
        });
        for blocking in &self.ways {
            let run = self.trial.run(client, *blocking);
            set = set.with(Tunable::new(blocking.to_string(), run));
        }
        // What candidates run on is made where they run, and nowhere else.
        let none = Scratch::none();
        Ok(of(tuner.choose(&set, &self.key, &none, &stream, policy)?))
    }
}

/// The lengths and strides of an item, rounded. None, if one is beyond counting.
pub(crate) fn sizes(item: &Item) -> Option<Vec<i64>> {
    let size = |word: &WordValue| match word {
        WordValue::Size(size) => size.max().map(rounded),
        WordValue::Bits(_) | WordValue::Scalar(_) => Some(0),
    };
    item.words.iter().map(size).collect()
}

/// Up to the next of four steps in each doubling.
fn rounded(size: i64) -> i64 {
    if size <= 64 {
        return size;
    }
    let step = 1_i64 << (size.ilog2() - 2);
    size.checked_add(step - 1)
        .map_or(size, |sum| sum / step * step)
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn short_lengths_are_told_apart_and_long_ones_by_quarters() {
        assert_eq!([0, -3, 63, 64].map(rounded), [0, -3, 63, 64]);
        assert_eq!([65, 80, 81, 128, 129].map(rounded), [80, 80, 96, 128, 160]);
        assert_eq!(rounded(i64::MAX), i64::MAX);
    }
}

//! Tunes how reductions are split: whole schedules with different splits are measured against each other.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use millstream_client::handle::Handle;
use millstream_client::{ComputeClient, Stream};
use millstream_tune::{Failure, Fastest, Tunable, TunableSet};

use crate::compiled::{CompiledSchedule, GraphCache};
use crate::error::ScheduleError;
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::node::NodeId;
use crate::schedule::Schedule;
use crate::schedule::item::Work;
use crate::schedule::split::Parts;
use crate::tuner::{FILL_BYTE, GraphTuner, ProgramKey, filled, sizes};

/// The candidates, the default first: no splits; splits of more and shorter rows; splits of many short rows, such as
/// columns of a table.
fn candidates() -> [(&'static str, Parts); 4] {
    let default = Parts::default();
    let middling = default.of_up_to(256).of_rows_beyond(1 << 13);
    let short = default.of_up_to(4096).of_rows_beyond(1 << 10);
    [
        ("usual", default),
        ("whole", Parts::never()),
        ("middling", middling.of_at_least(1 << 11).at_most(1 << 12)),
        ("short", short.of_at_least(1 << 8).at_most(1 << 14)),
    ]
}

impl Schedule {
    /// Creates the schedule of these roots, with reductions split as is the fastest: as the cache's tuner knows, or as
    /// it measures now. To measure, several schedules run on separate memory, as many bytes as all inputs have. The
    /// tuner's policy decides whether a graph that it does not know is measured. Graphs without reductions, and those
    /// with kernels of users, are scheduled as by [`Schedule::create`].
    ///
    /// Blocks while it tunes: it compiles the schedules, tunes their programs too, and measures them.
    ///
    /// # Errors
    /// As [`Schedule::create`]; [`ScheduleError::NoTuner`]; [`ScheduleError::Tuning`].
    pub fn create_tuned(
        roots: &[&LazyBuffer],
        client: &ComputeClient,
        cache: &Arc<GraphCache>,
    ) -> Result<Self, ScheduleError> {
        let tuner = cache.tuner.as_ref().ok_or(ScheduleError::NoTuner)?;
        let default_schedule = Self::create(roots)?;
        let Some(mut key) = tuner.key_of(&default_schedule) else {
            return Ok(default_schedule);
        };
        let mut found: Vec<(&str, ProgramKey, Self)> = Vec::new();
        for (name, parts) in candidates() {
            let schedule = Self::create_split(roots, parts)?;
            if let Some(key) = tuner.key_of(&schedule)
                && found.iter().all(|(_, known, _)| *known != key)
            {
                found.push((name, key, schedule));
            }
        }
        if found.len() < 2 {
            return Ok(default_schedule);
        }
        // Keys that round to the same lengths may still have different splits, so the names are part of the key.
        let names: Vec<&str> = found.iter().map(|(name, ..)| *name).collect();
        key.name = format!("schedule: {}", names.join(", "));
        let of = |index: usize| {
            found
                .get(index)
                .map_or(&default_schedule, |(.., it)| it)
                .clone()
        };
        if let Fastest::Hit(index) = tuner.tuner().fastest(&key) {
            return Ok(of(index));
        }
        let stream = client.new_stream();
        let inputs = Arc::new(Inputs {
            bytes: default_schedule.bytes_of_inputs(client)?,
            memory: OnceLock::new(),
        });
        let mut set = TunableSet::new("graph parts", |_: &ProgramKey, (): &()| ());
        for (name, _, schedule) in &found {
            let run = trial(schedule.clone(), cache, &stream, inputs.clone());
            set = set.with(Tunable::new(*name, run));
        }
        Ok(of(tuner.choose(&set, &key, &stream, tuner.policy)?))
    }

    /// Returns the number of bytes of each input and buffer, by node.
    fn bytes_of_inputs(
        &self,
        client: &ComputeClient,
    ) -> Result<HashMap<NodeId, u64>, ScheduleError> {
        let mut bytes = HashMap::new();
        for (node, of_input) in self.memory(client)?.input_nodes() {
            let most = bytes.entry(node).or_insert(0);
            *most = of_input.max(*most);
        }
        Ok(bytes)
    }
}

/// Buffers that replace those of a graph.
struct Inputs {
    /// The number of bytes of each, by node.
    bytes: HashMap<NodeId, u64>,
    /// The buffers, or the error of their allocation. Allocated by the first candidate that runs.
    memory: OnceLock<Result<HashMap<NodeId, Handle<u8>>, Failure>>,
}

/// Returns a function that runs a schedule on these inputs. The first call compiles it.
fn trial(
    schedule: Schedule,
    cache: &Arc<GraphCache>,
    stream: &Stream,
    inputs: Arc<Inputs>,
) -> impl Fn(()) -> Result<(), Failure> + Send + Sync + 'static {
    let (cache, stream) = (cache.clone(), stream.clone());
    let compiled: OnceLock<Result<CompiledSchedule, Failure>> = OnceLock::new();
    move |()| {
        let allocate = || {
            let buffers: Vec<_> = inputs
                .bytes
                .values()
                .map(|bytes| (*bytes, FILL_BYTE))
                .collect();
            let buffers = filled(&stream, &buffers).map_err(Failure::new)?;
            Ok(inputs.bytes.keys().copied().zip(buffers).collect())
        };
        let buffers = inputs.memory.get_or_init(allocate).as_ref();
        let buffers = buffers.map_err(Clone::clone)?;
        let compile = || {
            let compiled = schedule.compile_with_cache(stream.client(), &cache);
            compiled.map_err(Failure::new)
        };
        let compiled = compiled.get_or_init(compile).clone()?;
        let run = compiled.run().at_greatest().with_inputs(buffers);
        run.submit(&stream).map(|_| ()).map_err(Failure::new)
    }
}

impl GraphTuner {
    /// Returns the key of a schedule: its programs and their lengths. `None` if it has kernels of users, or if a length
    /// overflows.
    fn key_of(&self, schedule: &Schedule) -> Option<ProgramKey> {
        let mut key = ProgramKey {
            name: "schedule".to_owned(),
            program: 0,
            sizes: Vec::new(),
        };
        for item in schedule.items() {
            let Work::Program(program) = &item.work else {
                return None;
            };
            // Rotate to encode the order, and so that equal programs do not cancel out.
            key.program = key.program.rotate_left(5) ^ self.hash_of(program);
            key.sizes.extend(sizes(item)?);
        }
        Some(key)
    }
}

//! Where long rows are cut, tried out: whole schedules race, each with rows cut otherwise.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, OnceLock};

use millstream_client::handle::Handle;
use millstream_client::{ComputeClient, Stream};
use millstream_protocol::error::Error;
use millstream_tune::{Failure, Fastest, Tunable, TunableSet};

use crate::compiled::{CompiledSchedule, GraphCache};
use crate::error::ScheduleError;
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::node::NodeId;
use crate::schedule::Schedule;
use crate::schedule::item::Work;
use crate::schedule::split::Parts;
use crate::tuner::{GraphTuner, ORDINARY, ProgramKey, sizes};

/// What is tried, the usual first: rows that are whole; rows that need not be so few and long; and many short ones, as columns of a table are.
fn candidates() -> [(&'static str, Parts); 4] {
    let usual = Parts::default();
    let middling = usual.of_up_to(256).of_rows_beyond(1 << 13);
    let short = usual.of_up_to(4096).of_rows_beyond(1 << 10);
    [
        ("usual", usual),
        ("whole", Parts::never()),
        ("middling", middling.of_at_least(1 << 11).at_most(1 << 12)),
        ("short", short.of_at_least(1 << 8).at_most(1 << 14)),
    ]
}

/// Buffers in the place of a graph's, by their nodes, or why there are none.
#[derive(Clone)]
struct Inputs(Result<Arc<HashMap<NodeId, Handle<u8>>>, Failure>);

impl Inputs {
    fn new(stream: &Stream, bytes: &HashMap<NodeId, u64>) -> Self {
        let buffer = |(node, bytes): (&NodeId, &u64)| {
            let buffer = stream.empty::<u8>(*bytes as usize)?;
            stream.fill(&buffer, ORDINARY)?;
            Ok((*node, buffer))
        };
        let made: Result<_, Error> = bytes.iter().map(buffer).collect();
        Self(made.map(Arc::new).map_err(Failure::new))
    }
}

impl Schedule {
    /// The schedule of these roots, with rows that are reduced cut where that is the fastest, as the cache's tuner knows or finds out: several
    /// schedules run on memory of their own, as many bytes as all inputs have. What becomes of a graph that the tuner does not know, its
    /// policy says. Graphs that reduce nothing, and those with kernels of users, are scheduled as by [`Schedule::create`].
    ///
    /// Blocks where it tunes: the schedules are compiled, with their programs tuned too, and raced.
    ///
    /// # Errors
    /// As [`Schedule::create`]; [`ScheduleError::NoTuner`]; [`ScheduleError::Tuning`].
    pub fn create_tuned(
        roots: &[&LazyBuffer],
        client: &ComputeClient,
        cache: &Arc<GraphCache>,
    ) -> Result<Self, ScheduleError> {
        let tuner = cache.tuner.as_ref().ok_or(ScheduleError::NoTuner)?;
        let usual = Self::create(roots)?;
        let Some(mut key) = tuner.key_of(&usual) else {
            return Ok(usual);
        };
        let mut found: Vec<(&str, ProgramKey, Self)> = Vec::new();
        for (name, parts) in candidates() {
            let schedule = Self::create_in_parts(roots, parts)?;
            if let Some(key) = tuner.key_of(&schedule)
                && found.iter().all(|(_, known, _)| *known != key)
            {
                found.push((name, key, schedule));
            }
        }
        if found.len() < 2 {
            return Ok(usual);
        }
        // Lengths that are not told apart may be cut in different ways all the same.
        let names: Vec<&str> = found.iter().map(|(name, ..)| *name).collect();
        key.name = format!("schedule: {}", names.join(", "));
        let of = |index: usize| found.get(index).map_or(&usual, |(.., it)| it).clone();
        if let Fastest::Hit(index) = tuner.tuner().fastest(&key) {
            return Ok(of(index));
        }
        let stream = client.new_stream();
        let bytes = usual.bytes_of_inputs(client)?;
        let scratch = stream.clone();
        let mut set = TunableSet::new("graph parts", move |_: &ProgramKey, _: &Inputs| {
            Inputs::new(&scratch, &bytes)
        });
        for (name, _, schedule) in &found {
            let run = trial(schedule.clone(), client, cache, &stream);
            set = set.with(Tunable::new(*name, run));
        }
        let none = Inputs(Err(Failure::new("nothing was made for it to run on")));
        Ok(of(tuner.choose(
            &set,
            &key,
            &none,
            &stream,
            tuner.policy,
        )?))
    }

    /// Of the buffers that a run binds, or that are there, by their nodes.
    fn bytes_of_inputs(
        &self,
        client: &ComputeClient,
    ) -> Result<HashMap<NodeId, u64>, ScheduleError> {
        let mut bytes = HashMap::new();
        for (node, of_input) in self.memory(client)?.input_nodes() {
            match bytes.entry(node) {
                Entry::Vacant(place) => _ = place.insert(of_input),
                Entry::Occupied(mut known) => {
                    let most = of_input.max(*known.get());
                    known.insert(most);
                }
            }
        }
        Ok(bytes)
    }
}

/// Runs a schedule on such inputs. It is compiled at the first run.
fn trial(
    schedule: Schedule,
    client: &ComputeClient,
    cache: &Arc<GraphCache>,
    stream: &Stream,
) -> impl Fn(Inputs) -> Result<(), Failure> + Send + Sync + 'static {
    let (client, cache, stream) = (client.clone(), cache.clone(), stream.clone());
    let compiled: OnceLock<Result<CompiledSchedule, Failure>> = OnceLock::new();
    move |Inputs(inputs)| {
        let inputs = inputs?;
        let compile = || {
            let compiled = schedule.compile_with_cache(&client, &cache);
            compiled.map_err(Failure::new)
        };
        let compiled = compiled.get_or_init(compile).clone()?;
        let run = compiled.run().at_greatest().with_inputs(&inputs);
        run.submit(&stream).map(|_| ()).map_err(Failure::new)
    }
}

impl GraphTuner {
    /// What a schedule is known by: its programs, and their lengths. None, if it has kernels of users, or lengths beyond counting.
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
            // In their order: rotated, equal ones do not cancel out.
            key.program = key.program.rotate_left(5) ^ self.number(program);
            key.sizes.extend(sizes(item)?);
        }
        Some(key)
    }
}

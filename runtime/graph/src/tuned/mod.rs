//! Tuned schedules: each program has the blocking that a cache's tuner chooses, and reductions are split as is the
//! fastest.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use millstream_client::{ComputeClient, Stream};
use millstream_ir::Blocking;
use millstream_tune::{Outcome, Policy};

use crate::compiled::{CompiledSchedule, GraphCache};
use crate::error::ScheduleError;
use crate::lazy::buffer::LazyBuffer;
use crate::schedule::Schedule;
use crate::schedule::split::Parts;
use crate::tuner::{
    FILL_BYTE, GraphTuner, ProgramKey, TrialMemory, TunableProgram, hash_of, sizes,
};

/// The tuning result of one program of a schedule.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TunedItem {
    /// The index of the item in [`Schedule::items`].
    pub item: usize,
    /// The name of the kernel.
    pub kernel: String,
    /// The chosen blocking.
    pub blocking: Blocking,
    /// All measurements.
    pub outcome: Arc<Outcome>,
}

impl TunedItem {
    /// Returns the speed relative to the default blocking, by medians.
    pub fn gain(&self) -> Option<f64> {
        let median = |index: usize| {
            let mut all = self.outcome.candidates.iter();
            let found = all.find(|candidate| candidate.index == index)?;
            Some(found.result.as_ref().ok()?.median)
        };
        Some(median(0)? / median(self.outcome.winner)?)
    }
}

impl fmt::Display for TunedItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "item {}, {}: {}", self.item, self.kernel, self.blocking)?;
        match self.gain() {
            Some(gain) => write!(f, ", {gain:.2} times as fast as the default"),
            None => Ok(()),
        }
    }
}

impl GraphCache {
    /// Chooses the blockings of programs by this tuner.
    #[must_use]
    pub fn tuned_by(mut self, tuner: GraphTuner) -> Self {
        self.tuner = Some(tuner);
        self
    }
}

impl Schedule {
    /// Tunes each program that the cache's tuner does not know. Schedules that are compiled later use the results.
    /// Tunes whatever the tuner's policy is. Returns the result of each program with more than one blocking.
    ///
    /// Blocks: up to a tenth of a second of the device's time for each program, unless the tuner has another budget,
    /// and the time to compile kernels.
    ///
    /// # Errors
    /// [`ScheduleError::NoTuner`] if the cache has no tuner; as [`Schedule::compile`].
    pub fn tune(
        &self,
        client: &ComputeClient,
        cache: &GraphCache,
    ) -> Result<Vec<TunedItem>, ScheduleError> {
        let tuner = cache.tuner.as_ref().ok_or(ScheduleError::NoTuner)?;
        self.check_device(client)?;
        let mut tuned = Vec::new();
        for (index, item) in self.shared.items.iter().enumerate() {
            let Some(program) = TunableProgram::new(client, &self.shared, item) else {
                continue;
            };
            let key = program.key.clone();
            let blocking = program.blocking(tuner, client, Policy::Wait)?;
            tuned.extend(tuner.tuner().outcome(&key).map(|outcome| TunedItem {
                item: index,
                kernel: key.name,
                blocking,
                outcome,
            }));
        }
        Ok(tuned)
    }
}

// Tunes how reductions are split: whole schedules with different splits are measured against each other.

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
        let Some(mut key) = key_of(&default_schedule) else {
            return Ok(default_schedule);
        };
        let mut found: Vec<(&str, ProgramKey, Self)> = Vec::new();
        for (name, parts) in candidates() {
            let schedule = Self::create_split(roots, parts)?;
            if let Some(key) = key_of(&schedule)
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
        let candidates = |stream: &Stream| {
            default_schedule.check_device(client)?;
            let steps = &default_schedule.shared;
            let inputs = steps.memory.externals.iter();
            let inputs = inputs.filter(|external| external.is_input);
            let sizes = inputs.clone().map(|input| (input.bytes, FILL_BYTE));
            let memory = TrialMemory::new(stream, sizes.collect());
            let written = inputs.map(|input| steps.node(input.node).written);
            let places: HashMap<u64, usize> = written.zip(0..).collect();
            let candidate = |(name, _, schedule): &(&str, ProgramKey, Self)| {
                let (schedule, cache, places) = (schedule.clone(), cache.clone(), places.clone());
                let run = memory.clone().candidate(
                    move |stream| schedule.compile_with_cache(stream.client(), &cache),
                    move |stream, compiled: &CompiledSchedule, buffers| {
                        let buffer = |written| Some(buffers[*places.get(&written)?].clone());
                        let run = compiled.run().at_greatest().with_inputs(buffer);
                        run.submit(stream).map(|_| ())
                    },
                );
                ((*name).to_owned(), run)
            };
            Ok(found.iter().map(candidate).collect())
        };
        let fastest = tuner.fastest(("graph parts", &key), client, tuner.policy, candidates)?;
        let chosen = found.into_iter().nth(fastest);
        Ok(chosen.map_or(default_schedule, |(.., schedule)| schedule))
    }
}

/// Returns the key of a schedule: its programs and their lengths. `None` if it has kernels of users, or if a length
/// overflows.
fn key_of(schedule: &Schedule) -> Option<ProgramKey> {
    let mut key = ProgramKey {
        name: "schedule".to_owned(),
        program: 0,
        sizes: Vec::new(),
    };
    for item in schedule.items() {
        let program = item.program()?;
        // Rotate to encode the order, and so that equal programs do not cancel out.
        key.program = key.program.rotate_left(5) ^ hash_of(program);
        key.sizes.extend(sizes(item)?);
    }
    Some(key)
}

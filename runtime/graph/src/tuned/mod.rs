//! Tuned schedules: each program has the blocking that a cache's tuner chooses, and reductions are split as is the
//! fastest.

mod split;

use std::fmt;
use std::sync::Arc;

use millstream_client::ComputeClient;
use millstream_ir::Blocking;
use millstream_tune::{Outcome, Policy};

use crate::compiled::GraphCache;
use crate::error::ScheduleError;
use crate::schedule::Schedule;
use crate::tuner::{GraphTuner, TunableProgram};

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

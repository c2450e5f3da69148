//! Schedules that are tuned: each program cut up as a cache's tuner finds best, and long rows where that is the fastest.

mod parts;

use std::fmt;
use std::sync::Arc;

use millstream_client::ComputeClient;
use millstream_ir::Blocking;
use millstream_tune::{Outcome, Policy};

use crate::compiled::GraphCache;
use crate::error::ScheduleError;
use crate::schedule::Schedule;
use crate::tuner::{Asked, GraphTuner};

/// What is known of one program of a schedule.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TunedItem {
    /// Its place in [`Schedule::items`].
    pub item: usize,
    /// The name of its kernel.
    pub kernel: String,
    /// How it is cut up.
    pub blocking: Blocking,
    /// All that were measured.
    pub outcome: Arc<Outcome>,
}

impl TunedItem {
    /// How many times as fast as the usual way it is, by medians.
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
            Some(gain) => write!(f, ", {gain:.2} times as fast as usual"),
            None => Ok(()),
        }
    }
}

impl GraphCache {
    /// With programs cut up as this tuner finds best.
    #[must_use]
    pub fn tuned_by(mut self, tuner: GraphTuner) -> Self {
        self.tuner = Some(tuner);
        self
    }
}

impl Schedule {
    /// Finds out how each program is best cut up, where the cache's tuner does not know: schedules that are compiled later are so.
    /// Whatever the tuner's policy is, this tunes. Answers what is known of each program that there is a choice for.
    ///
    /// Blocks: up to a tenth of a second of the device's time for each program, unless the tuner says otherwise, and kernels are compiled.
    ///
    /// # Errors
    /// [`ScheduleError::NoTuner`]; as [`Schedule::compile`].
    pub fn tune(
        &self,
        client: &ComputeClient,
        cache: &GraphCache,
    ) -> Result<Vec<TunedItem>, ScheduleError> {
        let tuner = cache.tuner.as_ref().ok_or(ScheduleError::NoTuner)?;
        let memory = self.memory(client)?;
        let mut tuned = Vec::new();
        for item in 0..self.shared.items.len() {
            let Some(asked) = Asked::new(tuner, client, (&self.shared, &memory), item) else {
                continue;
            };
            let key = asked.key.clone();
            let blocking = asked.blocking(tuner, client, Policy::Wait)?;
            tuned.extend(tuner.tuner().outcome(&key).map(|outcome| TunedItem {
                item,
                kernel: key.name,
                blocking,
                outcome,
            }));
        }
        Ok(tuned)
    }
}

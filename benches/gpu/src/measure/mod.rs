//! The groups of rows. The first group has only raw calls, for comparison with the others.

mod calls;
mod copies;
mod idle;
mod launches;
mod replays;
mod streams;
mod threads;

use std::sync::Barrier;
use std::time::{Duration, Instant};

use millstream::{Cuda, Device};
use millstream_harness::{RecordRow, Sampler, alternate};

use crate::error::BenchError;
use crate::raw::Gpu;
use crate::rows::Samples;

/// Shared by all groups: the raw GPU and the amount of work.
pub(crate) struct Rig {
    pub(crate) gpu: Gpu,
    /// Samples of each side.
    pub(crate) rounds: usize,
    /// Whether to do the least work for every row, since the fake driver interprets kernels.
    pub(crate) quick: bool,
}

impl Rig {
    /// Opens a device on the same GPU, with default options.
    fn device(&self) -> Result<Device, BenchError> {
        Ok(Device::open(Cuda::ordinal(0))?)
    }

    /// Returns how often a sample does something: often enough for some milliseconds on a GPU, or `quick` times.
    fn count(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }

    /// Samples all sides in turn.
    fn alternate<const N: usize>(
        &self,
        sides: [Sampler<'_, BenchError>; N],
    ) -> Result<[Samples; N], BenchError> {
        alternate(self.rounds, sides)
    }
}

/// The timeout of a device's close.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Rows that are measured together.
pub(crate) struct Group<R> {
    pub(crate) name: &'static str,
    pub(crate) measure: fn(&R) -> Result<Vec<RecordRow>, BenchError>,
}

macro_rules! groups {
    ($($name:literal: $measure:path;)*) => {
        &[$(Group { name: $name, measure: $measure }),*]
    };
}

pub(crate) use groups;

/// All groups, in the order of the table. The name is for `--only` and for errors.
pub(crate) const GROUPS: &[Group<Rig>] = groups! {
    "raw calls": calls::measure;
    "launches": launches::measure;
    "client threads": threads::measure;
    "replays": replays::measure;
    "copies": copies::measure;
    "hand-over": streams::hand_over;
    "overlap": streams::overlap;
    "idle": idle::measure;
};

/// Runs `body` with each element on a thread of its own, at the same time, and after `prepare`. Returns the seconds until
/// the last one ends.
pub(crate) fn on_threads<T: Send>(
    each: impl ExactSizeIterator<Item = T>,
    prepare: impl Fn() -> Result<(), BenchError> + Sync,
    body: impl Fn(T) -> Result<(), BenchError> + Sync,
) -> Result<f64, BenchError> {
    let barrier = Barrier::new(each.len() + 1);
    std::thread::scope(|scope| {
        let spawn = |element| {
            let (barrier, prepare, body) = (&barrier, &prepare, &body);
            scope.spawn(move || {
                let prepared = prepare();
                barrier.wait();
                prepared.and_then(|()| body(element))
            })
        };
        let spawned: Vec<_> = each.map(spawn).collect();
        barrier.wait();
        let start = Instant::now();
        let results = spawned
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Err(BenchError::Panicked)));
        // Joins all threads before it returns the first error.
        let results: Vec<_> = results.collect();
        let spent = start.elapsed();
        results.into_iter().collect::<Result<(), _>>()?;
        Ok(spent.as_secs_f64())
    })
}

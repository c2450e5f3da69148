//! The amount of work of a run.

use std::time::Duration;

/// The numbers of samples and operations of a run.
pub(crate) struct Plan {
    /// Samples of each side.
    pub(crate) rounds: usize,
    /// Launches of one sample.
    pub(crate) launches: usize,
    /// Calls of a raw driver function in one sample.
    pub(crate) calls: usize,
    /// Tasks that one sample replays; divided by the length of the recording, the number of replays.
    pub(crate) replayed_tasks: usize,
    /// Copies of 4 KiB of one sample.
    pub(crate) copies: usize,
    /// Copies of 64 MiB of one sample.
    pub(crate) large_copies: usize,
    /// Hand-overs between streams of one sample.
    pub(crate) hops: usize,
    /// Long kernels of one sample.
    pub(crate) long_kernels: usize,
    /// The loop iterations of a long kernel.
    pub(crate) iterations: u32,
    /// The length of a sample of an idle device.
    pub(crate) idle: Duration,
}

impl Plan {
    /// Nine samples for each median, each at least some milliseconds long on a GPU.
    pub(crate) fn full() -> Self {
        Self {
            rounds: 9,
            launches: 20_000,
            calls: 4_096,
            replayed_tasks: 50_000,
            copies: 1_000,
            large_copies: 10,
            hops: 2_000,
            long_kernels: 20,
            // Each iteration depends on the one before: about a millisecond for all.
            iterations: 400_000,
            idle: Duration::from_secs(1),
        }
    }

    /// The least work for every row, since the fake driver interprets kernels.
    pub(crate) fn quick() -> Self {
        Self {
            rounds: 1,
            launches: 64,
            calls: 16,
            replayed_tasks: 1_000,
            copies: 4,
            large_copies: 1,
            hops: 8,
            long_kernels: 4,
            iterations: 100,
            idle: Duration::from_millis(50),
        }
    }
}

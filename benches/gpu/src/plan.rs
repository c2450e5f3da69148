//! How much is measured.

use std::time::Duration;

/// Counts of a run.
pub(crate) struct Plan {
    /// Samples of each side.
    pub(crate) rounds: usize,
    /// Launches of one sample.
    pub(crate) launches: usize,
    /// Calls of one sample of a raw function.
    pub(crate) calls: usize,
    /// Tasks that one sample replays, so many replays of a recording as they make.
    pub(crate) replayed: usize,
    /// Copies of 4 KiB, and of 64 MiB, of one sample.
    pub(crate) copies: usize,
    pub(crate) large_copies: usize,
    /// Hand-overs of one sample.
    pub(crate) hops: usize,
    /// Long kernels of one sample, and the turns of each one's loop.
    pub(crate) long: usize,
    pub(crate) turns: u32,
    /// How long nothing is done.
    pub(crate) idle: Duration,
}

impl Plan {
    /// Samples of some milliseconds and more on a GPU, of which nine make a median.
    pub(crate) fn full() -> Self {
        Self {
            rounds: 9,
            launches: 20_000,
            calls: 4_096,
            replayed: 50_000,
            copies: 1_000,
            large_copies: 10,
            hops: 2_000,
            long: 20,
            // A turn is an addition that waits for the one before: about a millisecond.
            turns: 400_000,
            idle: Duration::from_secs(1),
        }
    }

    /// Enough for every row to come out, on a driver that interprets kernels.
    pub(crate) fn quick() -> Self {
        Self {
            rounds: 1,
            launches: 64,
            calls: 16,
            replayed: 1_000,
            copies: 4,
            large_copies: 1,
            hops: 8,
            long: 4,
            turns: 100,
            idle: Duration::from_millis(50),
        }
    }
}

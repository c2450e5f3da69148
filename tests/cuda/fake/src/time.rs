//! The GPU's virtual clock. It advances with each executed operation, by about what a GPU takes for it, and depends
//! only on the seed and the operations. Streams share it, because operations run one at a time.

use crate::operation::Operation;
use crate::rng::SeededRng;

/// The least time of an operation.
const OPERATION_NS: u64 = 500;
/// The additional time of a copy or a kernel before its first byte.
const START_NS: u64 = 1_500;
/// The bytes, or threads, per nanosecond.
const BYTES_PER_NS: u64 = 100;
const THREADS_PER_NS: u64 = 50;
/// The largest additional time, chosen by the seed.
const JITTER_NS: usize = 512;

/// Nanoseconds since the session began.
#[derive(Default)]
pub(crate) struct Time {
    now_ns: u64,
    /// A separate generator, so that times do not affect the order of execution.
    rng: SeededRng,
}

impl Time {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            now_ns: 0,
            rng: SeededRng::new(!seed),
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Advances the clock for an executed operation.
    pub(crate) fn advance(&mut self, operation: &Operation) {
        let jitter = self.rng.below(JITTER_NS) as u64;
        self.now_ns += jitter + duration_ns(operation);
    }
}

fn duration_ns(operation: &Operation) -> u64 {
    let work = match operation {
        Operation::CopyIn { target: rows, .. }
        | Operation::CopyOut { target: rows, .. }
        | Operation::Copy { target: rows, .. }
        | Operation::Fill { target: rows, .. } => START_NS + rows.bytes() / BYTES_PER_NS,
        Operation::Launch(launch) => {
            let all = launch.cubes.iter().chain(&launch.threads);
            let threads = all.fold(1, |threads: u64, axis| {
                threads.saturating_mul(u64::from(*axis))
            });
            START_NS + threads / THREADS_PER_NS
        }
        Operation::Native(native) => {
            let spans = native.reads.iter().chain(&native.writes);
            START_NS + spans.map(|span| span.bytes).sum::<u64>() / BYTES_PER_NS
        }
        Operation::Allocate(_)
        | Operation::Free(_)
        | Operation::Wait(_)
        // The nodes advance the clock themselves.
        | Operation::Graph(_)
        | Operation::Record(_) => 0,
    };
    OPERATION_NS + work
}

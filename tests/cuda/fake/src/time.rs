//! The "GPU"'s clock: virtual, and the same for the same seed and the same operations. It goes on with each operation
//! that is executed, by about as much as a GPU takes for the like. Streams share it, as they take turns.

use crate::chance::Chance;
use crate::operation::Operation;

/// What an operation takes that does nothing.
const OPERATION_NS: u64 = 500;
/// What a copy or a kernel takes besides, before its first byte.
const START_NS: u64 = 1_500;
/// How many bytes, or threads, a nanosecond is enough for.
const BYTES_PER_NS: u64 = 100;
const THREADS_PER_NS: u64 = 50;
/// Every operation takes up to this much more, by the seed.
const JITTER_NS: usize = 512;

/// Nanoseconds since the session began.
pub(crate) struct Time {
    now_ns: u64,
    /// Of its own, so that who asks for times changes no order.
    chance: Chance,
}

impl Time {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            now_ns: 0,
            chance: Chance::new(!seed),
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// An operation is executed.
    pub(crate) fn pass(&mut self, operation: &Operation) {
        let jitter = self.chance.below(JITTER_NS) as u64;
        self.now_ns += jitter + takes_ns(operation);
    }
}

fn takes_ns(operation: &Operation) -> u64 {
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
        Operation::Allocate(_)
        | Operation::Free(_)
        | Operation::WriteValue { .. }
        | Operation::Call { .. }
        | Operation::Wait(_)
        // Its nodes take their own.
        | Operation::Graph(_)
        | Operation::Record(_) => 0,
    };
    OPERATION_NS + work
}

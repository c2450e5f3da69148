//! Measures device memory: allocation, use and drop, and the runtime's heap per live buffer.

use super::{Effort, Figures, timed};
use crate::contender::Contender;

/// Bytes of each buffer that is allocated and dropped.
const BUFFER_BYTES: usize = 1024;

/// The number of live buffers whose heap bytes are measured: just below a power of two, so that the figure shows what a
/// buffer needs, and not how full a doubling table happens to be.
const WEIGHED: usize = 16_000;
/// Bytes of each of those buffers.
const WEIGHED_BYTES: usize = 32;

/// Allocates a buffer, uses it in a launch and drops it while `LIVE` others live. Returns `ns` of both
/// sides and heap `allocations`.
pub(crate) fn allocate_use_drop<C: Contender, const LIVE: usize>(effort: Effort) -> Figures {
    let contender = C::open();
    let live: Vec<_> = (0..LIVE).map(|_| contender.empty(BUFFER_BYTES)).collect();
    contender.sync();
    let (mut made, mut cycles) = (0, 0);
    let ns = timed(effort, |count| {
        let before = millstream_heap_count::allocations();
        for _ in 0..count {
            contender.launch_one(&contender.empty(BUFFER_BYTES));
        }
        contender.sync();
        made = millstream_heap_count::allocations() - before;
        cycles = count;
    });
    drop(live);
    vec![("ns", ns), ("allocations", made as f64 / cycles as f64)]
}

/// Measures the runtime's heap bytes per live buffer, including the caller's handle and without the
/// device's memory.
pub(crate) fn bytes_per_buffer<C: Contender>(_: Effort) -> Figures {
    let contender = C::open();
    drop(contender.empty(WEIGHED_BYTES));
    contender.sync();
    let runtime_bytes = || millstream_heap_count::live_bytes() - contender.device_bytes() as i64;
    let before = runtime_bytes();
    let mut live = Vec::with_capacity(WEIGHED);
    live.extend((0..WEIGHED).map(|_| contender.empty(WEIGHED_BYTES)));
    contender.sync();
    let after = runtime_bytes();
    drop(live);
    vec![("bytes", (after - before) as f64 / WEIGHED as f64)]
}

//! Device memory: allocating, using and dropping, and what a live buffer costs the runtime.

use super::{Effort, Figures, timed};
use crate::contender::Contender;
use crate::instruments::allocations;

/// Bytes of each buffer that is allocated and dropped.
const BUFFER_BYTES: usize = 1024;

/// Live buffers whose upkeep is weighed: just below a power of two, so that what shows is what a buffer
/// needs, and not how full a table happens to be that doubles.
const WEIGHED: usize = 16_000;
/// Bytes of each.
const WEIGHED_BYTES: usize = 32;

/// A buffer is allocated, used in a launch and dropped while `LIVE` others live: `ns` of both
/// sides and heap `allocations`.
pub(crate) fn allocate_use_drop<C: Contender, const LIVE: usize>(effort: Effort) -> Figures {
    let contender = C::open();
    let live: Vec<_> = (0..LIVE).map(|_| contender.empty(BUFFER_BYTES)).collect();
    contender.sync();
    let (mut made, mut cycles) = (0, 0);
    let ns = timed(effort, |count| {
        let before = allocations::allocations();
        for _ in 0..count {
            contender.launch_one(&contender.empty(BUFFER_BYTES));
        }
        contender.sync();
        made = allocations::allocations() - before;
        cycles = count;
    });
    drop(live);
    vec![("ns", ns), ("allocations", made as f64 / cycles as f64)]
}

/// Heap bytes of the runtime for each live buffer, the caller's handle included and the device's
/// memory left out.
pub(crate) fn bytes_per_buffer<C: Contender>(_: Effort) -> Figures {
    let contender = C::open();
    drop(contender.empty(WEIGHED_BYTES));
    contender.sync();
    let runtime_bytes = || allocations::live_bytes() - contender.device_bytes() as i64;
    let before = runtime_bytes();
    let mut live = Vec::with_capacity(WEIGHED);
    live.extend((0..WEIGHED).map(|_| contender.empty(WEIGHED_BYTES)));
    contender.sync();
    let after = runtime_bytes();
    drop(live);
    vec![("bytes", (after - before) as f64 / WEIGHED as f64)]
}

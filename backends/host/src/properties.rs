//! What devices whose memory is the host's say of themselves alike.

use std::collections::BTreeSet;

use millstream_protocol::properties::Feature;

/// Every page, and so every slice, starts at a multiple of this many bytes.
pub const ALIGNMENT: usize = 256;

/// Rows of pitched tensors start at multiples of this many bytes: a cache line.
pub const PITCH_ALIGNMENT: u64 = 64;

/// Most bindings of one launch: as many as a native cube can take chunks of.
pub const BINDINGS_MAX: usize = 64;

/// Most tasks that the server may have in flight on one queue. The queues themselves have no bound.
pub const QUEUE_DEPTH_MAX: usize = 1024;

/// What a CPU runs.
pub fn features() -> BTreeSet<Feature> {
    BTreeSet::from([
        Feature::NativeKernels,
        Feature::DynamicCubeCount,
        Feature::F64,
        Feature::I64,
    ])
}

//! Properties that all devices with host memory share.

use std::collections::BTreeSet;

use millstream_protocol::Feature;

/// The alignment of every page, and so of every slice, in bytes.
pub const ALIGNMENT: usize = 256;

/// The alignment of the rows of pitched tensors in bytes: a cache line.
pub const PITCH_ALIGNMENT: u64 = 64;

/// The greatest number of bindings of one launch: a native cube can take chunks of as many.
pub const BINDINGS_MAX: usize = 64;

/// The greatest number of tasks that the server may have in flight on one queue.
pub const QUEUE_DEPTH_MAX: usize = 1023;

/// Returns the features that a CPU supports.
pub fn features() -> BTreeSet<Feature> {
    BTreeSet::from([
        Feature::NativeKernels,
        Feature::DynamicCubeCount,
        Feature::F64,
        Feature::I64,
        Feature::Printing,
    ])
}

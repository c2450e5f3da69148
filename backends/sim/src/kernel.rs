//! A compiled kernel. The module `compiler` compiles it, and `cubes` runs it.

use std::sync::Arc;

use millstream_host::Body;
use millstream_protocol::Kernel;

/// A kernel that this device runs.
pub(crate) struct SimKernel {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) body: Body,
}

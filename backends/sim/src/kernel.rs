//! A compiled kernel. The module `compiler` compiles it, and `cubes` runs it.

use std::sync::Arc;

use millstream_host::Body;
use millstream_protocol::kernel::Kernel;

/// A kernel that this device runs.
pub(crate) struct SimKernel {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) body: Body,
}

impl SimKernel {
    /// Returns `true` if the kernel is a program of the IR, which has no effects other than its stores.
    pub(crate) fn is_program(&self) -> bool {
        self.body.is_program()
    }
}

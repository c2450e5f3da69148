//! A compiled kernel. How it is compiled and run stands elsewhere: `compiler`, `cubes`.

use std::sync::Arc;

use millstream_host::Body;
use millstream_protocol::kernel::Kernel;

/// A kernel that this device runs.
pub(crate) struct SimKernel {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) body: Body,
}

impl SimKernel {
    /// Whether the kernel is a program of the IR, which has no effects but its stores.
    pub(crate) fn is_program(&self) -> bool {
        self.body.is_program()
    }
}

//! A compiled kernel. The module `compiler` compiles it, and `cubes` runs it.

use std::sync::Arc;

use millstream_host::Body;
use millstream_protocol::Kernel;

use crate::threads::Code;

/// A kernel that this device runs.
pub(crate) struct SimKernel {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) body: SimBody,
}

/// The source of a kernel, ready to run.
pub(crate) enum SimBody {
    /// A function of the IR, which runs thread by thread.
    Threads(Box<Code>),
    /// What the CPU runs as well.
    Host(Body),
}

impl SimBody {
    /// Returns `true` if the body is a program of the IR, which has no effects other than its stores.
    pub(crate) fn is_program(&self) -> bool {
        match self {
            Self::Threads(_) => true,
            Self::Host(body) => body.is_program(),
        }
    }
}

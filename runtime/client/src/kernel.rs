//! A prepared kernel.

use std::sync::Arc;

use millstream_protocol::id::KernelId;
use millstream_protocol::kernel::Kernel;
use millstream_protocol::table::Hold;

/// A kernel that a device knows. Cheap to clone; launches need only a reference.
#[derive(Clone)]
pub struct KernelHandle {
    pub(crate) hold: Hold,
    pub(crate) kernel: Arc<Kernel>,
}

impl KernelHandle {
    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        self.kernel.name()
    }

    /// The kernel as its author wrote it.
    pub fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    /// Its place in the device's table.
    #[inline]
    pub fn id(&self) -> KernelId {
        KernelId(self.hold.id())
    }
}

impl std::fmt::Debug for KernelHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KernelHandle({})", self.name())
    }
}

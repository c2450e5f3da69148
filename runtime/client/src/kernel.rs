//! A kernel that is prepared for a device.
//!
//! The thread that calls `ComputeClient::kernel` compiles, and the device thread receives only kernels that are ready.
//! So no task waits for a kernel, several threads compile side by side, and the caller gets the compiler's log at
//! once. A thread for compilation would need one more state in which tasks park, and would report a failure late, as
//! poisoned data.

use std::sync::Arc;

use millstream_protocol::{Kernel, KernelId, SlotRef};

/// A kernel that is prepared for a device. Cheap to clone; launches need only a reference.
#[derive(Clone)]
pub struct KernelHandle {
    pub(crate) hold: SlotRef,
    pub(crate) kernel: Arc<Kernel>,
}

impl KernelHandle {
    /// Returns the kernel's name.
    pub fn name(&self) -> &Arc<str> {
        self.kernel.name()
    }

    /// Returns the kernel as it was defined.
    pub fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    /// Returns the kernel's id: its slot in the device's table.
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

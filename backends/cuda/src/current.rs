//! The context of a device on the threads of other libraries that access its memory by address.

use std::sync::Arc;

use millstream_protocol::Refused;

use crate::device::CudaResources;
use crate::driver::{Context, CurrentGuard, context_may_have_changed};

/// Keeps the context of a device current on the thread that created it. A drop restores the previous one.
#[must_use = "a drop restores the previous context"]
pub struct CurrentContext {
    /// Dropped first.
    _current: CurrentGuard,
    _context: Arc<Context>,
}

impl CudaResources {
    /// Makes the context of the device current on this thread, until the guard is dropped. Guards of one thread are dropped
    /// in the reverse order.
    ///
    /// # Errors
    /// The driver refuses it; the GPU may be lost.
    pub fn enter(&self) -> Result<CurrentContext, Refused> {
        let context = self.context.clone();
        let current = context.push_current()?;
        context_may_have_changed();
        Ok(CurrentContext {
            _current: current,
            _context: context,
        })
    }
}

impl Drop for CurrentContext {
    fn drop(&mut self) {
        context_may_have_changed();
    }
}

//! The context of a device on the threads of other libraries that access its memory by address.

use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::sys::CUcontext;
use millstream_protocol::error::Refused;

use crate::device::CudaResources;
use crate::driver::{Code, Context, context_may_have_changed};
use crate::lane::refusal;

/// Keeps the context of a device current on the thread that created it. A drop restores the previous one.
#[must_use = "a drop restores the previous context"]
pub struct CurrentContext {
    context: Arc<Context>,
    /// Contexts are current on one thread.
    _thread: PhantomData<*const ()>,
}

impl CudaResources {
    /// Makes the context of the device current on this thread, until the guard is dropped. Guards of one thread are dropped
    /// in the reverse order.
    ///
    /// # Errors
    /// The driver refuses it; the GPU may be lost.
    pub fn enter(&self) -> Result<CurrentContext, Refused> {
        let context = self.owner().clone();
        // SAFETY: the context is retained.
        let pushed = unsafe { (context.api().push_context)(context.raw()) };
        Code::check(pushed).map_err(|code| refusal("cuCtxPushCurrent", code))?;
        context_may_have_changed();
        Ok(CurrentContext {
            context,
            _thread: PhantomData,
        })
    }
}

impl Drop for CurrentContext {
    fn drop(&mut self) {
        let mut popped: CUcontext = std::ptr::null_mut();
        // SAFETY: the context was pushed on this thread, and the out pointer is valid.
        let answer = unsafe { (self.context.api().pop_context)(&raw mut popped) };
        context_may_have_changed();
        // After a loss every call fails, which the device reports.
        if let Err(code) = Code::check(answer) {
            tracing::debug!(target: "millstream::cuda", %code, "`cuCtxPopCurrent` failed");
        }
    }
}

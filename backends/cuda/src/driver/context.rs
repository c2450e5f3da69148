//! A context of a GPU: the primary context, which all code of the process shares, or one that the application created.

use std::cell::Cell;
use std::sync::Arc;

use cudarc::driver::sys::CUcontext;
use millstream_protocol::error::OpenError;

use super::gpu::refused;
use super::{Api, Class, Code, Gpu};

thread_local! {
    /// The context that `enter` last made current on this thread. Foreign code may have changed it since.
    static CURRENT: Cell<CUcontext> = const { Cell::new(std::ptr::null_mut()) };
}

/// Invalidates the cache of `enter_cached` after foreign code ran on this thread.
pub(crate) fn context_may_have_changed() {
    CURRENT.set(std::ptr::null_mut());
}

/// A context of a GPU: the retained primary context, or an adopted one.
pub(crate) struct Context {
    gpu: Gpu,
    raw: CUcontext,
    /// Whether this is the primary context, which `drop` releases.
    retained: bool,
}

// SAFETY: a context may be current on any number of threads; the driver does its own locking.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Retains the primary context of a GPU and makes it current on this thread.
    pub(crate) fn retain(gpu: Gpu) -> Result<Arc<Self>, OpenError> {
        let mut raw: CUcontext = std::ptr::null_mut();
        // SAFETY: the driver is initialized and reported this GPU.
        let answer = unsafe { (gpu.api.retain_context)(&raw mut raw, gpu.device) };
        Code::check(answer).map_err(|code| refused("cuDevicePrimaryCtxRetain", code))?;
        let context = Arc::new(Self {
            gpu,
            raw,
            retained: true,
        });
        context
            .enter()
            .map_err(|code| refused("cuCtxSetCurrent", code))?;
        Ok(context)
    }

    /// Adopts an application's context, finds its GPU in `gpus`, and makes the context current on this thread.
    ///
    /// # Safety
    /// The context must outlive the value.
    pub(crate) unsafe fn adopt(raw: CUcontext, gpus: Vec<Gpu>) -> Result<Arc<Self>, OpenError> {
        let Some(any) = gpus.first() else {
            return Err(refused("cuDeviceGetCount", Code::NO_DEVICE));
        };
        let api = any.api;
        let mut device = 0;
        // SAFETY: the caller guarantees that the context lives; the out pointer is valid.
        unsafe {
            Code::check((api.set_context)(raw)).map_err(|code| refused("cuCtxSetCurrent", code))?;
            Code::check((api.context_device)(&raw mut device))
                .map_err(|code| refused("cuCtxGetDevice", code))?;
        }
        let gpu = gpus.into_iter().find(|gpu| gpu.device == device);
        let gpu = gpu.ok_or_else(|| refused("cuCtxGetDevice", Code::NO_DEVICE))?;
        CURRENT.set(raw);
        Ok(Arc::new(Self {
            gpu,
            raw,
            retained: false,
        }))
    }

    /// Makes the context current on the calling thread.
    #[inline]
    pub(crate) fn enter(&self) -> Result<(), Code> {
        // SAFETY: the context is retained.
        let entered = Code::check(unsafe { (self.gpu.api.set_context)(self.raw) });
        CURRENT.set(match entered {
            Ok(()) => self.raw,
            Err(_) => std::ptr::null_mut(),
        });
        entered
    }

    /// Makes the context current on a thread that runs no foreign code. Only the first call there reaches the driver.
    #[inline]
    pub(crate) fn enter_cached(&self) -> Result<(), Code> {
        match CURRENT.get() == self.raw {
            true => Ok(()),
            false => self.enter(),
        }
    }

    /// Makes the context current on a client's thread until the guard is dropped, which restores the previous one.
    pub(crate) fn push_current(&self) -> Result<CurrentGuard<'_>, Code> {
        // SAFETY: the context is retained.
        Code::check(unsafe { (self.api().push_context)(self.raw) })?;
        Ok(CurrentGuard(self))
    }

    /// Destroys a resource of this context, on the thread that dropped its last owner. A client's thread may have no
    /// current context or another one, which is restored afterwards.
    pub(crate) fn destroy(&self, call: &'static str, destroy: impl FnOnce(&Api) -> u32) {
        // SAFETY: the context is retained.
        let pushed = unsafe { (self.api().push_context)(self.raw) };
        log_failure("cuCtxPushCurrent", pushed);
        if pushed != Code::SUCCESS {
            // Leaving another context current on this thread is better than a leak.
            let _ = self.enter();
        }
        log_failure(call, destroy(self.api()));
        if pushed == Code::SUCCESS {
            let mut popped: CUcontext = std::ptr::null_mut();
            // SAFETY: the context was pushed on this thread, and the out pointer is valid.
            log_failure("cuCtxPopCurrent", unsafe {
                (self.api().pop_context)(&raw mut popped)
            });
        }
    }

    #[inline]
    pub(crate) fn api(&self) -> &'static Api {
        self.gpu.api
    }

    pub(crate) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    pub(crate) fn raw(&self) -> CUcontext {
        self.raw
    }

    /// Whether this is the primary context.
    pub(crate) fn is_primary(&self) -> bool {
        self.retained
    }

    /// Returns the driver's numbers for low, normal and high priority: the ends of its range and the middle. Streams
    /// with lower numbers go first.
    pub(crate) fn priorities(&self) -> Result<[i32; 3], Code> {
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: the out pointers are valid; the context is current.
        Code::check(unsafe { (self.api().priority_range)(&raw mut least, &raw mut greatest) })?;
        Ok([least, (least + greatest) / 2, greatest])
    }

    /// Returns the free bytes of the GPU, as all processes leave them.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let (mut free, mut all) = (0, 0);
        // SAFETY: the out pointers are valid; without a current context the call returns an error.
        let answer = unsafe { (self.api().memory_info)(&raw mut free, &raw mut all) };
        Code::check(answer).is_ok().then_some(free as u64)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if !self.retained {
            return;
        }
        // SAFETY: retained once, released once; every resource of the context holds this value.
        let answer = unsafe { (self.gpu.api.release_context)(self.gpu.device) };
        log_failure("cuDevicePrimaryCtxRelease", answer);
    }
}

/// Keeps the context current on this thread; `drop` restores the previous one.
pub(crate) struct CurrentGuard<'a>(&'a Context);

impl Drop for CurrentGuard<'_> {
    fn drop(&mut self) {
        let mut popped: CUcontext = std::ptr::null_mut();
        // SAFETY: the context was pushed on this thread, and the out pointer is valid.
        log_failure("cuCtxPopCurrent", unsafe {
            (self.0.api().pop_context)(&raw mut popped)
        });
    }
}

/// Logs a failed call of a destructor, which cannot return an error. Sticky errors are reported as a loss elsewhere.
pub(super) fn log_failure(call: &'static str, answer: u32) {
    if let Err(code) = Code::check(answer)
        && code.class() != Class::Sticky
    {
        tracing::warn!(target: "millstream::cuda", call, %code, "the driver refused to release a resource");
    }
}

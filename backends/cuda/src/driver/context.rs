//! A context of a GPU: the primary context, which all code of the process shares, or one that the application created.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::sys::{CUcontext, CUstreamCaptureMode};
use millstream_protocol::OpenError;
use millstream_sync::facade::Mutex;

use super::retired::Reaper;
use super::{Api, Code, Gpu};

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
    pub(crate) gpu: Gpu,
    pub(crate) raw: CUcontext,
    /// Whether this is the primary context, which `drop` releases.
    pub(crate) is_primary: bool,
    /// What waits for its release.
    pub(super) reaper: Mutex<Reaper>,
}

// SAFETY: a context may be current on any number of threads; the driver does its own locking.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Retains the primary context of a GPU.
    pub(crate) fn retain(gpu: Gpu) -> Result<Arc<Self>, OpenError> {
        let mut raw: CUcontext = std::ptr::null_mut();
        // SAFETY: the driver is initialized and reported this GPU.
        unsafe { gpu.api.retain_context(&raw mut raw, gpu.device) }?;
        Ok(Arc::new(Self {
            gpu,
            raw,
            is_primary: true,
            reaper: Mutex::default(),
        }))
    }

    /// Adopts an application's context and finds its GPU in `gpus`.
    ///
    /// # Safety
    /// The context must outlive the value.
    pub(crate) unsafe fn adopt(raw: CUcontext, gpus: Vec<Gpu>) -> Result<Arc<Self>, OpenError> {
        let Some(any) = gpus.first() else {
            return Err(Code::new("cuDeviceGetCount", Code::NO_DEVICE).into());
        };
        let api = any.api;
        let mut device = 0;
        // SAFETY: the caller guarantees that the context lives.
        let current = unsafe { CurrentGuard::push(api, raw) }?;
        // SAFETY: the out pointer is valid.
        unsafe { api.context_device(&raw mut device) }?;
        drop(current);
        let gpu = gpus.into_iter().find(|gpu| gpu.device == device);
        let gpu = gpu.ok_or(Code::new("cuCtxGetDevice", Code::NO_DEVICE))?;
        Ok(Arc::new(Self {
            gpu,
            raw,
            is_primary: false,
            reaper: Mutex::default(),
        }))
    }

    /// Makes the context current on the calling thread, and does not restore the previous one.
    pub(super) fn enter(&self) -> Result<(), Code> {
        // SAFETY: the context is retained.
        let entered = unsafe { self.gpu.api.set_context(self.raw) };
        CURRENT.set(match entered {
            Ok(()) => self.raw,
            Err(_) => std::ptr::null_mut(),
        });
        entered
    }

    /// Makes the context current on a thread of this device that runs no foreign code. Only the first call there reaches
    /// the driver.
    #[inline]
    pub(crate) fn enter_cached(&self) -> Result<(), Code> {
        match CURRENT.get() == self.raw {
            true => Ok(()),
            false => self.enter(),
        }
    }

    /// Makes the context current on a thread that is not the device's until the guard is dropped, which restores the
    /// previous one: other code of the thread, such as PyTorch, has a current context of its own.
    #[inline]
    pub(crate) fn push_current(&self) -> Result<CurrentGuard, Code> {
        // SAFETY: the context is retained.
        unsafe { CurrentGuard::push(self.api(), self.raw) }
    }

    /// Destroys a resource of this context, on the thread that dropped its last owner. A client's thread may have no
    /// current context or another one, which is restored afterwards.
    pub(crate) fn destroy(&self, destroy: impl FnOnce(&Api) -> Result<(), Code>) {
        self.with_current(|api| log_failure(destroy(api)));
    }

    /// Calls `body`, which releases resources, with the context current.
    pub(crate) fn with_current(&self, body: impl FnOnce(&Api)) {
        let current = self.push_current();
        if let Err(code) = &current {
            log_failure(Err(*code));
            // Leaving another context current on this thread is better than a leak.
            let _ = self.enter();
        }
        body(self.api());
    }

    /// Calls `ask`, which queries an event or waits for it, with the context current. The thread's mode of captures is relaxed
    /// meanwhile: in another mode such a call would invalidate captures, also those of other threads.
    pub(crate) fn ask<T>(&self, ask: impl FnOnce() -> Result<T, Code>) -> Result<T, Code> {
        let _current = self.push_current()?;
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as u32;
        // SAFETY: the pointer is valid. The call swaps the mode of the thread and this one.
        let mut exchange = || unsafe { self.api().exchange_capture_mode(&raw mut mode) };
        exchange()?;
        let answer = ask();
        log_failure(exchange());
        answer
    }

    #[inline]
    pub(crate) fn api(&self) -> &'static Api {
        self.gpu.api
    }

    /// Returns the driver's numbers for low, normal and high priority: the least, 0 and the greatest of its range. Streams
    /// with lower numbers go first. 0 is what other code of the process has if it asks for no priority, so queues of
    /// normal priority are equal to it. On most GPUs it is also the least, so that low and normal are one.
    pub(crate) fn priorities(&self) -> Result<[i32; 3], Code> {
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: the out pointers are valid; the context is current.
        unsafe { self.api().priority_range(&raw mut least, &raw mut greatest) }?;
        Ok([least, 0.clamp(greatest.min(least), least), greatest])
    }

    /// Returns the free bytes of the GPU, as all processes leave them.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let (mut free, mut all) = (0, 0);
        // SAFETY: the out pointers are valid; without a current context the call returns an error.
        let known = unsafe { self.api().memory_info(&raw mut free, &raw mut all) };
        known.ok().map(|()| free as u64)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.release_retired();
        if !self.is_primary {
            return;
        }
        // SAFETY: retained once, released once; every resource of the context holds this value.
        log_failure(unsafe { self.gpu.api.release_context(self.gpu.device) });
    }
}

/// Keeps a context current on this thread; `drop` restores the previous one.
#[must_use = "a drop restores the previous context"]
pub(crate) struct CurrentGuard {
    api: &'static Api,
    /// Contexts are current on one thread.
    _thread: PhantomData<*const ()>,
}

impl CurrentGuard {
    /// # Safety
    /// The context lives until the guard is dropped.
    #[inline]
    unsafe fn push(api: &'static Api, context: CUcontext) -> Result<Self, Code> {
        // SAFETY: as the caller guarantees.
        unsafe { api.push_context(context) }?;
        Ok(Self {
            api,
            _thread: PhantomData,
        })
    }
}

impl Drop for CurrentGuard {
    fn drop(&mut self) {
        let mut popped: CUcontext = std::ptr::null_mut();
        // SAFETY: the context was pushed on this thread, and the out pointer is valid.
        log_failure(unsafe { self.api.pop_context(&raw mut popped) });
    }
}

/// Logs a failed call of a destructor, which cannot return an error. Sticky errors are reported as a loss elsewhere.
pub(super) fn log_failure(released: Result<(), Code>) {
    if let Err(code) = released
        && !code.is_sticky()
    {
        tracing::warn!(target: "millstream::cuda", %code, "the driver refused to release a resource");
    }
}

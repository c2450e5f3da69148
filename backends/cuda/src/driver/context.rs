//! A context of a GPU: the primary one, which this process shares with whatever else uses the GPU here, or one that
//! somebody else has made.

use std::cell::Cell;
use std::sync::Arc;

use cudarc::driver::sys::CUcontext;
use millstream_protocol::error::OpenError;

use super::gpu::refused;
use super::{Api, Class, Code, Gpu};

thread_local! {
    /// The context that we made current on this thread last. Others may have changed it since.
    static CURRENT: Cell<CUcontext> = const { Cell::new(std::ptr::null_mut()) };
}

/// Foreign code has run on this thread, and may have left another context current.
pub(crate) fn context_may_have_changed() {
    CURRENT.set(std::ptr::null_mut());
}

/// A context of a GPU: its primary one, held until the value is dropped, or somebody else's.
pub(crate) struct Context {
    gpu: Gpu,
    raw: CUcontext,
    /// It is the primary one, and was retained.
    retained: bool,
}

// SAFETY: a context may be current on any number of threads; the driver locks what it must.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Retains the context and makes it current on this thread.
    pub(crate) fn retain(gpu: Gpu) -> Result<Arc<Self>, OpenError> {
        let mut raw: CUcontext = std::ptr::null_mut();
        // SAFETY: the driver is initialized, the GPU is one of its own.
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

    /// Makes somebody else's context current on this thread, and finds its GPU among these.
    ///
    /// # Safety
    /// The context lives as long as the value.
    pub(crate) unsafe fn adopt(raw: CUcontext, gpus: Vec<Gpu>) -> Result<Arc<Self>, OpenError> {
        let gone = |call, code| refused(call, code);
        let Some(any) = gpus.first() else {
            return Err(gone("cuDeviceGetCount", Code::NO_DEVICE));
        };
        let api = any.api;
        let mut device = 0;
        // SAFETY: the caller's promise; the place for the answer is ours.
        unsafe {
            Code::check((api.set_context)(raw)).map_err(|code| gone("cuCtxSetCurrent", code))?;
            Code::check((api.context_device)(&raw mut device))
                .map_err(|code| gone("cuCtxGetDevice", code))?;
        }
        let gpu = gpus.into_iter().find(|gpu| gpu.device == device);
        let gpu = gpu.ok_or_else(|| gone("cuCtxGetDevice", Code::NO_DEVICE))?;
        CURRENT.set(raw);
        Ok(Arc::new(Self {
            gpu,
            raw,
            retained: false,
        }))
    }

    /// Makes it current on the calling thread: what follows there is about it.
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

    /// The same on a thread that runs nobody else's code: the driver is called once there, and not at each task.
    #[inline]
    pub(crate) fn stay(&self) -> Result<(), Code> {
        match CURRENT.get() == self.raw {
            true => Ok(()),
            false => self.enter(),
        }
    }

    /// Makes it current on a thread of somebody else's, until the value is dropped.
    pub(crate) fn lend(&self) -> Result<Lent<'_>, Code> {
        // SAFETY: the context is retained.
        Code::check(unsafe { (self.api().push_context)(self.raw) })?;
        Ok(Lent(self))
    }

    /// Ends something that was made in it, on whatever thread its last owner let go of it: a client's knows nothing of
    /// CUDA, or has a context of its own current, which is so again afterwards.
    pub(crate) fn end(&self, call: &'static str, end: impl FnOnce(&Api) -> u32) {
        // SAFETY: the context is retained.
        let pushed = unsafe { (self.api().push_context)(self.raw) };
        told("cuCtxPushCurrent", pushed);
        if pushed != Code::SUCCESS {
            // Rather another context current on this thread than something that never ends.
            let _ = self.enter();
        }
        told(call, end(self.api()));
        if pushed == Code::SUCCESS {
            let mut ours: CUcontext = std::ptr::null_mut();
            // SAFETY: it was pushed on this thread, the place for the answer is ours.
            told("cuCtxPopCurrent", unsafe {
                (self.api().pop_context)(&raw mut ours)
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

    /// The driver's numbers for low, normal and high priority: the range's ends, and between them. Lower numbers go first.
    pub(crate) fn priorities(&self) -> Result<[i32; 3], Code> {
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: the places for the answers are ours; the context is current.
        Code::check(unsafe { (self.api().priority_range)(&raw mut least, &raw mut greatest) })?;
        Ok([least, (least + greatest) / 2, greatest])
    }

    /// Bytes that are free on the GPU, whoever uses the rest.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let (mut free, mut all) = (0, 0);
        // SAFETY: the places for the answers are ours; without a current context it is an error.
        let answer = unsafe { (self.api().memory_info)(&raw mut free, &raw mut all) };
        Code::check(answer).is_ok().then_some(free as u64)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if !self.retained {
            return;
        }
        // SAFETY: retained once, released once; whatever was made in it holds this value.
        let answer = unsafe { (self.gpu.api.release_context)(self.gpu.device) };
        told("cuDevicePrimaryCtxRelease", answer);
    }
}

/// The context is current on this thread; what was before is so again afterwards.
pub(crate) struct Lent<'a>(&'a Context);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut ours: CUcontext = std::ptr::null_mut();
        // SAFETY: it was pushed on this thread, the place for the answer is ours.
        told("cuCtxPopCurrent", unsafe {
            (self.0.api().pop_context)(&raw mut ours)
        });
    }
}

/// A call whose failure can be told to nobody but a log: something was to end.
pub(super) fn told(call: &'static str, answer: u32) {
    if let Err(code) = Code::check(answer)
        && code.class() != Class::Sticky
    {
        tracing::warn!(target: "millstream::cuda", call, %code, "the driver refused to end something");
    }
}

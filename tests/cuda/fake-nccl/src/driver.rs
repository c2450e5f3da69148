//! The functions of the loaded driver, with handles as numbers.

use std::ffi::c_char;
use std::sync::OnceLock;

use libloading::Library;

/// A range of memory, as `fake_cuda_native` takes it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

pub(crate) type Ready = extern "C" fn(u64) -> u32;
pub(crate) type Run = extern "C" fn(u64, *const *const u8, *const *mut u8);

macro_rules! functions {
    ($($name:ident = $symbol:ident($($type:ty),*) -> $answer:ty;)*) => {
        pub(crate) struct Driver {
            $(pub(crate) $name: unsafe extern "C" fn($($type),*) -> $answer,)*
        }

        impl Driver {
            fn find() -> Option<Self> {
                // SAFETY: the driver of this process, which the caller has loaded already.
                let library = unsafe { Library::new(libloading::library_filename("cuda")) }.ok()?;
                let library: &'static Library = Box::leak(Box::new(library));
                // SAFETY: the types are those of the driver's header, and of the fake driver's controls.
                unsafe { Some(Self { $($name: *library.get(stringify!($symbol)).ok()?,)* }) }
            }
        }
    };
}

functions! {
    retain = cuDevicePrimaryCtxRetain(*mut u64, i32) -> u32;
    release = cuDevicePrimaryCtxRelease_v2(i32) -> u32;
    push = cuCtxPushCurrent_v2(u64) -> u32;
    pop = cuCtxPopCurrent_v2(*mut u64) -> u32;
    current_device = cuCtxGetDevice(*mut i32) -> u32;
    allocate = cuMemAlloc_v2(*mut u64, usize) -> u32;
    free = cuMemFree_v2(u64) -> u32;
    stream_context = cuStreamGetCtx(u64, *mut u64) -> u32;
    synchronize = cuStreamSynchronize(u64) -> u32;
    create_event = cuEventCreate(*mut u64, u32) -> u32;
    destroy_event = cuEventDestroy_v2(u64) -> u32;
    record = cuEventRecord(u64, u64) -> u32;
    wait = cuStreamWaitEvent(u64, u64, u32) -> u32;
    gpu_at = fake_cuda_gpu_at(u64) -> i32;
    native = fake_cuda_native(
        u64, *const c_char, *const Span, usize, *const Span, usize, Option<Ready>, Option<Run>, u64
    ) -> u32;
}

/// Returns the driver, if it is the fake one.
pub(crate) fn driver() -> Option<&'static Driver> {
    static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
    DRIVER.get_or_init(Driver::find).as_ref()
}

/// Converts a return value of the driver to one of NCCL: `ncclUnhandledCudaError`.
pub(crate) fn check(answer: u32) -> Result<(), u32> {
    match answer {
        0 => Ok(()),
        _ => Err(crate::status::UNHANDLED_CUDA_ERROR),
    }
}

impl Driver {
    /// Calls a function with this context.
    pub(crate) fn within<T>(
        &self,
        context: u64,
        body: impl FnOnce() -> Result<T, u32>,
    ) -> Result<T, u32> {
        // SAFETY: the driver checks the handle.
        check(unsafe { (self.push)(context) })?;
        let outcome = body();
        let mut popped = 0;
        // SAFETY: the context was pushed above, and the out pointer is valid.
        let popped = check(unsafe { (self.pop)(&raw mut popped) });
        outcome.and_then(|value| popped.map(|()| value))
    }

    /// Returns the context of a stream and its GPU.
    pub(crate) fn stream(&self, stream: u64) -> Result<(u64, i32), u32> {
        let (mut context, mut device) = (0, -1);
        // SAFETY: the driver checks the handle, and the out pointer is valid.
        check(unsafe { (self.stream_context)(stream, &raw mut context) })?;
        self.within(context, || {
            // SAFETY: the out pointer is valid.
            check(unsafe { (self.current_device)(&raw mut device) })
        })?;
        Ok((context, device))
    }
}

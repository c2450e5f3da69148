//! Calls of the loaded driver, with handles as numbers.

use libloading::Library;

use crate::loaded;
use crate::status::{INTERNAL_ERROR, UNHANDLED_CUDA_ERROR};

/// A range of memory, as `fake_cuda_native` takes it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

/// The code of an operation: its data, and pointers to the memory that it reads and writes.
pub(crate) type Run = extern "C" fn(u64, *const *const u8, *const *mut u8);

fn driver() -> Result<&'static Library, u32> {
    loaded::driver().ok_or(INTERNAL_ERROR)
}

/// Calls a function of the driver, which checks its handles.
pub(crate) fn call(name: &str, arguments: &[u64]) -> Result<(), u32> {
    match loaded::call(driver()?, name, arguments) {
        0 => Ok(()),
        _ => Err(UNHANDLED_CUDA_ERROR),
    }
}

/// Calls a function whose first argument is an out pointer, and returns the value.
pub(crate) fn make(name: &str, arguments: &[u64]) -> Result<u64, u32> {
    let mut made = 0_u64;
    let out = [&raw mut made as u64];
    call(name, &[&out, arguments].concat())?;
    Ok(made)
}

/// Calls a function with this context.
pub(crate) fn within<T>(context: u64, body: impl FnOnce() -> Result<T, u32>) -> Result<T, u32> {
    call("cuCtxPushCurrent_v2", &[context])?;
    let outcome = body();
    let popped = make("cuCtxPopCurrent_v2", &[]);
    outcome.and_then(|value| popped.map(|_| value))
}

/// Returns the context of a stream and its GPU.
pub(crate) fn stream(stream: u64) -> Result<(u64, i32), u32> {
    let mut context = 0_u64;
    call("cuStreamGetCtx", &[stream, &raw mut context as u64])?;
    let device = within(context, || make("cuCtxGetDevice", &[]))?;
    Ok((context, device as i32))
}

/// Returns the GPU of the memory at this address, or -1.
pub(crate) fn gpu_at(address: u64) -> Result<i32, u32> {
    let gpu = loaded::call(driver()?, "fake_cuda_gpu_at", &[address]);
    Ok(gpu.cast_signed())
}

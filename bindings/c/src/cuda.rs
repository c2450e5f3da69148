//! Adopting a context and streams of CUDA that an engine has created, and work of the engine in place of a task.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use millstream::cuda::{CudaRaw, CudaResources};
use millstream::{Cuda, Device};
use smallvec::SmallVec;

use crate::argument::ms_argument;
use crate::custom::{Buffers, run_task};
use crate::device::{ms_device, ms_driver};
use crate::handles::get;
use crate::native::{Function, ms_drop_fn};
use crate::opening::{give_opened, ms_device_options, open_kind, without_memory_limit};
use crate::sized::{read_options, read_plain, read_struct, sized, text, with, write_struct};
use crate::status::{Answer, Fault, ensure, exports, ms_status, write};
use crate::stream::{ms_stream, stream_of};

/// A context of CUDA that an engine has created.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_cuda_context {
    /// `sizeof(ms_cuda_context)`.
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// The `CUcontext`. The device is on its GPU.
    pub context: *mut c_void,
    /// The `CUstream`s that the queues use, of this context. What the engine adds to a stream, and the tasks of its queue,
    /// run in the order in which they are added. NULL if there are none: the device makes its own.
    pub streams: *const *mut c_void,
    /// Their number: the number of queues. 0: `options.queues`.
    pub stream_count: usize,
}

/// The handles of a device of CUDA. They are valid as long as the device is open.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_cuda_handles {
    /// `sizeof(ms_cuda_handles)`. Set it before the call.
    pub size: u32,
    /// The GPU, from 0 in the order of the driver.
    pub ordinal: u32,
    /// The `CUcontext`.
    pub context: *mut c_void,
    /// The number of queues, each of which has a stream.
    pub stream_count: usize,
}

/// A buffer of a task that an engine submits.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_cuda_binding {
    /// The `CUdeviceptr` of its first byte; 0 if the buffer is empty.
    pub address: u64,
    /// The size in bytes.
    pub bytes: u64,
}

/// What a function that submits the work of a task receives. Valid until it returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_cuda_task {
    /// The size of this struct in the library, which may be greater than in the header that a program was compiled with.
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// The `CUcontext`, which is current.
    pub context: *mut c_void,
    /// The `CUstream` of the queue.
    pub stream: *mut c_void,
    /// The buffers, in the order of the call.
    pub bindings: *const ms_cuda_binding,
    /// Their number.
    pub binding_count: usize,
}

/// Submits work of an engine to a stream in place of a task. Answers 0, or another number if it failed: then what the task
/// would have written is poisoned.
///
/// It runs once, on the thread of the device. It must not throw or unwind, wait for the device, or call functions of this
/// library.
pub type ms_cuda_task_fn =
    Option<unsafe extern "C" fn(task: *const ms_cuda_task, user: *mut c_void) -> i32>;

sized!(ms_cuda_context: 32, ms_cuda_handles: 24);

exports! {
    /// Opens a device on a context of an engine, which is not destroyed with it. If `out_driver` is not NULL the device
    /// is driven, as by `ms_device_open_driven`. `options` may be NULL; its `ordinal` is ignored. Blocks while it is
    /// opened.
    ///
    /// The context and the streams must live until the device is closed and all objects that were made from it are
    /// destroyed. No stream may be captured while the device is open.
    ///
    /// Errors: `UNAVAILABLE` if there is no driver, a stream is of another context, or this build has no CUDA;
    /// `INVALID_ARGUMENT`.
    fn ms_device_adopt_cuda(
        adopted: *const ms_cuda_context, options: *const ms_device_options,
        out_device: *mut *mut ms_device, out_driver: *mut *mut ms_driver,
    ) {
        let out_driver = (!out_driver.is_null()).then_some(out_driver);
        give_opened(out_device, out_driver, |is_driven| {
            let (given, options) = (read_struct(adopted)?, read_options(options)?);
            without_memory_limit(&options)?;
            open_kind(cuda_of(&given, &options)?, &options, is_driven)
        })
    }

    /// Reports the driver's handles of a device, also of one that adopted none. Never blocks.
    ///
    /// Errors: `UNSUPPORTED` if the device is not one of CUDA; `CLOSED`.
    fn ms_device_get_cuda(device: *const ms_device, out: *mut ms_cuda_handles) {
        let raw = raw(&get(device)?.0)?;
        let (ordinal, context) = (raw.ordinal() as u32, raw.context().cast());
        let stream_count = raw.streams().len();
        write_struct(out, &ms_cuda_handles { size: 0, ordinal, context, stream_count })
    }

    /// Reports the `CUstream` of a queue, from 0, to which an engine may add work, or on which it may record events.
    /// The stream alone orders that work with the tasks of the queue; `ms_cuda_submit` orders it as a task. Never
    /// blocks.
    ///
    /// Errors: as `ms_device_get_cuda`; `INVALID_ARGUMENT` if there is no such queue.
    fn ms_device_get_cuda_stream(device: *const ms_device, queue: usize, out: *mut *mut c_void) {
        let raw = raw(&get(device)?.0)?;
        let count = raw.streams().len();
        let none = || Fault::argument(format!("the device has {count} queues, got index {queue}"));
        write(out, raw.streams().nth(queue).ok_or_else(none)?.cast())
    }

    /// Adds a task whose work an engine submits to a stream of CUDA, with the name `name` in errors. The arguments are
    /// buffers with accesses. `drop`, if it is not NULL, is called with `user`, once, on any thread, after `function`
    /// has returned or when it will not be called; after an error of this call neither function is called.
    ///
    /// Errors: `UNSUPPORTED` if the device is not one of CUDA.
    fn ms_cuda_submit(
        stream: *const ms_stream, name: *const c_char, buffers: *const ms_argument, count: usize,
        function: ms_cuda_task_fn, drop: ms_drop_fn, user: *mut c_void,
    ) {
        let name = text(name, "name of the task")?;
        let function = Function::new(function, user, drop, "the function of the task")?;
        let owner = function.owner.clone();
        let work = move |resources: &CudaResources| {
            let bindings = (0..count).filter_map(|index| resources.binding(index));
            let bindings = bindings.map(|(address, bytes, _)| ms_cuda_binding { address, bytes });
            let bindings: SmallVec<[ms_cuda_binding; 8]> = bindings.collect();
            let stream = resources.stream().unwrap_or(std::ptr::null_mut());
            run_task(&function, &ms_cuda_task {
                size: size_of::<ms_cuda_task>() as u32, reserved: 0,
                context: resources.context().cast(), stream: stream.cast(),
                bindings: bindings.as_ptr(), binding_count: bindings.len(),
            });
        };
        Buffers::read(buffers, count)?.submit::<Cuda>(&stream_of(stream)?, name, &owner, work)
    }
}

/// # Safety
/// The handles are those of CUDA.
unsafe fn cuda_of(given: &ms_cuda_context, options: &ms_device_options) -> Answer<Cuda> {
    ensure!(
        !given.context.is_null(),
        "`context` of `ms_cuda_context` is NULL"
    );
    let (streams, count) = (given.streams, given.stream_count);
    if count == 0 {
        // SAFETY: the caller's promise.
        let cuda = unsafe { Cuda::adopt_context(given.context.cast()) };
        return Ok(with(cuda, options.queues as usize, Cuda::queues));
    }
    // SAFETY: the caller's promise.
    let streams = unsafe { read_plain(streams, count, "CUstream")? };
    let is_whole = streams.iter().all(|stream| !stream.is_null());
    ensure!(is_whole, "a stream of `ms_cuda_context` is NULL");
    let streams: Vec<_> = streams.into_iter().map(<*mut c_void>::cast).collect();
    // SAFETY: the caller's promise.
    Ok(unsafe { Cuda::adopt_streams(given.context.cast(), &streams) })
}

fn raw(device: &Device) -> Answer<Arc<CudaRaw>> {
    let no_cuda = || Fault::new(ms_status::Unsupported, "the device is not one of CUDA");
    device.raw::<CudaRaw>().ok_or_else(no_cuda)
}

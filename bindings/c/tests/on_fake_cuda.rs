//! Adopting a context and streams of CUDA, on a driver of our own that needs no GPU; all calls are those of C. Another
//! device plays the engine that has created them.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use fake_cuda::Session;
use millstream_capi::argument::{ms_argument, ms_value};
use millstream_capi::buffer::{
    ms_buffer, ms_buffer_create, ms_buffer_destroy, ms_fill, ms_read_into,
};
use millstream_capi::client::{ms_client, ms_client_create, ms_client_destroy};
use millstream_capi::cuda::{
    ms_cuda_context, ms_cuda_handles, ms_cuda_submit, ms_cuda_task, ms_device_adopt_cuda,
    ms_device_get_cuda, ms_device_get_cuda_stream,
};
use millstream_capi::device::{ms_device, ms_device_destroy, ms_driver, ms_driver_destroy};
use millstream_capi::kernel::{
    ms_binding_desc, ms_kernel, ms_kernel_create, ms_kernel_desc, ms_kernel_destroy,
    ms_scalar_desc, ms_source, ms_source_kind,
};
use millstream_capi::launch::{ms_cubes, ms_launch};
use millstream_capi::opening::{ms_device_open, ms_device_options};
use millstream_capi::status::{ms_last_error, ms_status};
use millstream_capi::stream::{ms_stream, ms_stream_create, ms_stream_destroy};
use millstream_capi::types::{ms_access, ms_type};

const LEN: usize = 1000;

fn last_error() -> &'static str {
    // SAFETY: the text ends with NUL, and lives until the next failure on this thread.
    unsafe { CStr::from_ptr(ms_last_error()) }.to_str().unwrap()
}

#[track_caller]
fn ok(status: ms_status) {
    assert_eq!(status, ms_status::Ok, "{}", last_error());
}

fn options(queues: u32) -> ms_device_options {
    ms_device_options {
        size: size_of::<ms_device_options>() as u32,
        ordinal: 0,
        queues,
        threads: 0,
        memory_limit: 0,
        seed: 0,
        sample_latencies: 0,
        mailbox_capacity: 0,
        log_level: 0,
        log_submissions: 0,
    }
}

fn open(ordinal: u32, queues: u32) -> *mut ms_device {
    let (options, mut device) = (options(queues), null_mut());
    let options = ms_device_options { ordinal, ..options };
    // SAFETY: all pointers are valid.
    ok(unsafe { ms_device_open(c"cuda".as_ptr(), &raw const options, &raw mut device) });
    device
}

fn handles_of(device: *const ms_device) -> ms_cuda_handles {
    let mut handles = ms_cuda_handles {
        size: size_of::<ms_cuda_handles>() as u32,
        ordinal: 9,
        context: null_mut(),
        stream_count: 0,
    };
    // SAFETY: the device lives.
    ok(unsafe { ms_device_get_cuda(device, &raw mut handles) });
    handles
}

fn streams_of(device: *const ms_device) -> Vec<*mut c_void> {
    let stream = |queue| {
        let mut stream = null_mut();
        // SAFETY: the device lives.
        ok(unsafe { ms_device_get_cuda_stream(device, queue, &raw mut stream) });
        stream
    };
    (0..handles_of(device).stream_count).map(stream).collect()
}

fn context(of: *const ms_device, streams: &[*mut c_void]) -> ms_cuda_context {
    ms_cuda_context {
        size: size_of::<ms_cuda_context>() as u32,
        reserved: 0,
        context: handles_of(of).context,
        streams: streams.as_ptr(),
        stream_count: streams.len(),
    }
}

/// A stream of a device, with a buffer and a kernel that fills it.
struct User {
    client: *mut ms_client,
    stream: *mut ms_stream,
    buffer: *mut ms_buffer,
    fill: *mut ms_kernel,
}

impl User {
    fn of(device: *const ms_device) -> Self {
        let mut user = Self {
            client: null_mut(),
            stream: null_mut(),
            buffer: null_mut(),
            fill: null_mut(),
        };
        // SAFETY: all pointers are valid.
        unsafe {
            ok(ms_client_create(device, null(), &raw mut user.client));
            ok(ms_stream_create(user.client, &raw mut user.stream));
            ok(ms_buffer_create(user.stream, 4 * LEN, &raw mut user.buffer));
        }
        user.fill = fill_kernel(user.client);
        user
    }

    fn argument(&self, access: ms_access) -> ms_argument {
        let buffer = self.buffer;
        argument(access as u32, ms_value { buffer })
    }

    /// Fills the buffer by a kernel.
    fn launch_fill(&self, value: u32) {
        let number = |value| argument(ms_type::U32 as u32, ms_value { u32: value });
        let arguments = [
            self.argument(ms_access::Write),
            number(value),
            number(LEN as u32),
        ];
        let cubes = ms_cubes { x: 4, y: 1, z: 1 };
        // SAFETY: the handles live, and the arguments are an array of this length.
        ok(unsafe { ms_launch(self.stream, self.fill, cubes, arguments.as_ptr(), 3) });
    }

    fn read(&self) -> Result<Vec<u32>, ms_status> {
        let mut values = vec![0; LEN];
        let into = values.as_mut_ptr().cast();
        // SAFETY: the handles live, and there is room.
        match unsafe { ms_read_into(self.stream, self.buffer, into, 4 * LEN) } {
            ms_status::Ok => Ok(values),
            status => Err(status),
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // SAFETY: each handle is destroyed once.
        unsafe {
            ok(ms_kernel_destroy(self.fill));
            ok(ms_buffer_destroy(self.buffer));
            ok(ms_stream_destroy(self.stream));
            ok(ms_client_destroy(self.client));
        }
    }
}

fn argument(kind: u32, value: ms_value) -> ms_argument {
    let size = size_of::<ms_argument>() as u32;
    ms_argument { size, kind, value }
}

fn fill_kernel(client: *const ms_client) -> *mut ms_kernel {
    let text = include_str!("../../../tests/cuda/tests/kernels/fill.ptx");
    let binding = ms_binding_desc {
        size: size_of::<ms_binding_desc>() as u32,
        access: ms_access::Write as u32,
        dtype: ms_type::U32 as u32,
        reserved: 0,
        name: c"to".as_ptr(),
    };
    let scalar = |name: &'static CStr| ms_scalar_desc {
        size: size_of::<ms_scalar_desc>() as u32,
        dtype: ms_type::U32 as u32,
        name: name.as_ptr(),
    };
    let scalars = [scalar(c"value"), scalar(c"n")];
    let source = ms_source {
        size: size_of::<ms_source>() as u32,
        kind: ms_source_kind::Ptx as u32,
        data: text.as_ptr().cast(),
        bytes: text.len(),
        function: None,
        user: null_mut(),
        drop: None,
    };
    let desc = ms_kernel_desc {
        size: size_of::<ms_kernel_desc>() as u32,
        may_alias: 0,
        name: c"fill".as_ptr(),
        bindings: &raw const binding,
        binding_count: 1,
        scalars: scalars.as_ptr(),
        scalar_count: scalars.len(),
        sources: &raw const source,
        source_count: 1,
        threads: [256, 1, 1],
        shared_bytes: 0,
        metadata_words: 0,
        reserved: 0,
    };
    let mut kernel = null_mut();
    // SAFETY: the description is valid until the call returns.
    ok(unsafe { ms_kernel_create(client, &raw const desc, &raw mut kernel) });
    kernel
}

type Fill = unsafe extern "C" fn(u64, u32, usize, *mut c_void) -> u32;

/// What the engine's task uses.
struct Engine {
    fill: Fill,
    context: *mut c_void,
    streams: Vec<*mut c_void>,
    dropped: AtomicU32,
}

unsafe extern "C" fn drop_engine(user: *mut c_void) {
    // SAFETY: the test passes an engine that outlives the device.
    let engine = unsafe { &*user.cast::<Engine>() };
    engine.dropped.fetch_add(1, Ordering::Relaxed);
}

/// Fills the first binding with 7 by a call of the driver.
unsafe extern "C" fn fill_by_driver(task: *const ms_cuda_task, user: *mut c_void) -> i32 {
    // SAFETY: the test passes an engine that outlives the device, and the task is valid.
    let (task, engine) = unsafe { (&*task, &*user.cast::<Engine>()) };
    assert!(task.context == engine.context && engine.streams.contains(&task.stream));
    assert_eq!(task.binding_count, 1);
    // SAFETY: there is one binding; its memory and the stream are valid.
    unsafe {
        let binding = &*task.bindings;
        assert_eq!(binding.bytes, 4 * LEN as u64);
        (engine.fill)(binding.address, 7, LEN, task.stream) as i32
    }
}

unsafe extern "C" fn refuse(_: *const ms_cuda_task, _: *mut c_void) -> i32 {
    5
}

/// I10: devices with threads and driven use the adopted context and streams, run kernels and the engine's tasks there, and
/// destroy neither.
#[test]
fn an_adopted_context_is_used_and_not_destroyed_i10() {
    let gpu = Session::begin(1).unwrap();
    let owner = open(0, 2);
    let streams = streams_of(owner);
    assert_eq!((handles_of(owner).ordinal, streams.len()), (0, 2));
    let mut none = null_mut();
    // SAFETY: the device lives.
    let beyond = unsafe { ms_device_get_cuda_stream(owner, 2, &raw mut none) };
    assert_eq!(beyond, ms_status::InvalidArgument);
    // SAFETY: the fake's initializers do nothing, and the function has this type.
    let library = unsafe { libloading::Library::new(libloading::library_filename("cuda")) };
    let library = library.unwrap();
    // SAFETY: as above.
    let fill = *unsafe { library.get::<Fill>("cuMemsetD32Async") }.unwrap();
    for (adopted, driven) in [(&streams[..], false), (&streams[..1], true), (&[], false)] {
        let before = gpu.calls("cuStreamCreateWithPriority");
        let given = context(owner, adopted);
        let options = options(2);
        let (mut device, mut driver) = (null_mut::<ms_device>(), null_mut::<ms_driver>());
        let out_driver = match driven {
            true => &raw mut driver,
            false => null_mut(),
        };
        // SAFETY: all pointers are valid, and the owner of the context outlives the device.
        unsafe {
            ok(ms_device_adopt_cuda(
                &raw const given,
                &raw const options,
                &raw mut device,
                out_driver,
            ));
        }
        // The stream of the memory pool, and the queues' own if none is adopted.
        let own = if adopted.is_empty() { 3 } else { 1 };
        assert_eq!(gpu.calls("cuStreamCreateWithPriority") - before, own);
        assert_eq!(handles_of(device).context, given.context);
        if !adopted.is_empty() {
            assert_eq!(streams_of(device), adopted);
        }
        let engine = Engine {
            fill,
            context: given.context,
            streams: streams_of(device),
            dropped: AtomicU32::new(0),
        };
        run(device, &engine);
        // SAFETY: each handle is destroyed once.
        unsafe {
            ok(ms_driver_destroy(driver));
            ok(ms_device_destroy(device));
        }
        assert_eq!(engine.dropped.load(Ordering::Relaxed), 2);
    }
    let user = User::of(owner);
    user.launch_fill(3);
    assert_eq!(user.read(), Ok(vec![3; LEN]));
    drop(user);
    // SAFETY: destroyed once.
    ok(unsafe { ms_device_destroy(owner) });
    gpu.assert_clean();
}

/// Runs a kernel, a task of the engine after it, and a task of the engine that fails.
fn run(device: *const ms_device, engine: &Engine) {
    let user = User::of(device);
    user.launch_fill(5);
    assert_eq!(user.read(), Ok(vec![5; LEN]));
    let argument = user.argument(ms_access::Write);
    let submit = |function| {
        let (name, engine) = (c"engine".as_ptr(), (&raw const *engine).cast_mut().cast());
        // SAFETY: the handles live, and the engine outlives the device.
        unsafe {
            ms_cuda_submit(
                user.stream,
                name,
                &raw const argument,
                1,
                Some(function),
                Some(drop_engine),
                engine,
            )
        }
    };
    ok(submit(fill_by_driver));
    assert_eq!(user.read(), Ok(vec![7; LEN]));
    ok(submit(refuse));
    assert_eq!(user.read(), Err(ms_status::Failed));
    let text = last_error();
    assert!(
        text.contains("engine") && text.contains("answered 5"),
        "{text}"
    );
    let zero = 0_u32;
    // SAFETY: the handles live.
    ok(unsafe { ms_fill(user.stream, user.buffer, (&raw const zero).cast(), 4) });
    assert_eq!(user.read(), Ok(vec![0; LEN]));
}

/// I7: what is wrong with a context is a status, and leaves nothing behind.
#[test]
fn wrong_contexts_are_refused_i7() {
    let gpu = Session::begin(2).unwrap();
    gpu.set_gpu_count(2);
    let (one, other) = (open(0, 1), open(1, 1));
    let (streams, null_stream) = (streams_of(other), [null_mut()]);
    let good = context(one, &[]);
    let adopt = |given: ms_cuda_context, options: &ms_device_options| {
        let mut device = null_mut();
        // SAFETY: all pointers are valid, and both devices outlive the one that is opened here.
        let status =
            unsafe { ms_device_adopt_cuda(&raw const given, options, &raw mut device, null_mut()) };
        assert!(device.is_null());
        status
    };
    let limited = ms_device_options {
        memory_limit: 1 << 20,
        ..options(1)
    };
    assert_eq!(adopt(good, &limited), ms_status::InvalidArgument);
    let no_context = ms_cuda_context {
        context: null_mut(),
        ..good
    };
    assert_eq!(adopt(no_context, &options(1)), ms_status::InvalidArgument);
    let null_stream = context(one, &null_stream);
    assert_eq!(adopt(null_stream, &options(1)), ms_status::InvalidArgument);
    let mixed = context(one, &streams);
    assert_eq!(adopt(mixed, &options(1)), ms_status::Unavailable);
    assert!(
        last_error().contains("to another context"),
        "{}",
        last_error()
    );
    for device in [one, other] {
        // SAFETY: destroyed once.
        ok(unsafe { ms_device_destroy(device) });
    }
    gpu.assert_clean();
}

//! Adopting a context and streams of CUDA, on a driver of our own that needs no GPU; all calls are those of C. Another
//! device plays the engine that has created them.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use fake_cuda::Session;
use millstream_capi::client::ms_client;
use millstream_capi::cuda::{
    ms_cuda_context, ms_cuda_handles, ms_cuda_submit, ms_cuda_task, ms_device_adopt_cuda,
    ms_device_get_cuda, ms_device_get_cuda_stream,
};
use millstream_capi::device::ms_device;
use millstream_capi::kernel::ms_source_kind;
use millstream_capi::opening::{ms_device_open, ms_device_options};
use millstream_capi::status::ms_status;
use millstream_capi::types::{ms_access, ms_type};

use common::{Kernel, Opened, User, given, last_error, ok, source, zeroed};

const LEN: usize = 1000;

fn options(queues: u32) -> ms_device_options {
    ms_device_options { queues, ..zeroed() }
}

fn open(ordinal: u32, queues: u32) -> Opened {
    let (name, options) = (
        c"cuda".as_ptr(),
        ms_device_options {
            ordinal,
            ..options(queues)
        },
    );
    // SAFETY: all pointers are valid.
    Opened::by(false, |device, _| unsafe {
        ms_device_open(name, &raw const options, device)
    })
    .unwrap()
}

fn handles_of(device: *const ms_device) -> ms_cuda_handles {
    let mut handles = ms_cuda_handles {
        ordinal: 9,
        ..zeroed()
    };
    // SAFETY: the device lives.
    ok(unsafe { ms_device_get_cuda(device, &raw mut handles) });
    handles
}

fn streams_of(device: *const ms_device) -> Vec<*mut c_void> {
    // SAFETY: the device lives.
    let stream = |queue| given(|out| unsafe { ms_device_get_cuda_stream(device, queue, out) });
    (0..handles_of(device).stream_count).map(stream).collect()
}

fn context(of: *const ms_device, streams: &[*mut c_void]) -> ms_cuda_context {
    ms_cuda_context {
        context: handles_of(of).context,
        streams: streams.as_ptr(),
        stream_count: streams.len(),
        ..zeroed()
    }
}

/// The user of a device fills its buffer by a kernel.
fn fill_by_kernel(user: &User, value: u32) {
    let text = include_bytes!("../../../tests/cuda/tests/kernels/fill.ptx");
    let client: *const ms_client = user.client;
    let buffer = (&[ms_access::Write][..], ms_type::U32);
    let source = source(ms_source_kind::Ptx, text);
    let kernel = Kernel::new(client, c"fill", buffer, (2, ms_type::U32), &source);
    ok(user.launch(&kernel, 4, ms_access::Write, &[value, LEN as u32]));
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
    let opened = open(0, 2);
    let owner = opened.device;
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
        let (given, options) = (context(owner, adopted), options(2));
        // SAFETY: all pointers are valid, and the owner of the context outlives the device.
        let opened = Opened::by(driven, |device, driver| unsafe {
            ms_device_adopt_cuda(&raw const given, &raw const options, device, driver)
        });
        let opened = opened.unwrap();
        let device = opened.device;
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
        drop(opened);
        assert_eq!(engine.dropped.load(Ordering::Relaxed), 2);
    }
    let user = User::of(owner, &[0; LEN]);
    fill_by_kernel(&user, 3);
    assert_eq!(user.read(), Ok(vec![3; LEN]));
    drop((user, opened));
    gpu.assert_clean();
}

/// Runs a kernel, a task of the engine after it, and a task of the engine that fails.
fn run(device: *const ms_device, engine: &Engine) {
    let user = User::of(device, &[0; LEN]);
    fill_by_kernel(&user, 5);
    assert_eq!(user.read(), Ok(vec![5; LEN]));
    let argument = user.argument(ms_access::Write);
    let submit = |function| {
        let (name, engine) = (c"engine".as_ptr(), (&raw const *engine).cast_mut().cast());
        let (function, drop) = (Some(function), Some(drop_engine as _));
        // SAFETY: the handles live, and the engine outlives the device.
        unsafe {
            ms_cuda_submit(
                user.stream,
                name,
                &raw const argument,
                1,
                function,
                drop,
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
    user.fill(0);
    assert_eq!(user.read(), Ok(vec![0; LEN]));
}

/// I7: what is wrong with a context is a status, and leaves nothing behind.
#[test]
fn wrong_contexts_are_refused_i7() {
    let gpu = Session::begin(2).unwrap();
    gpu.set_gpu_count(2);
    let (one, other) = (open(0, 1), open(1, 1));
    let (streams, null_stream) = (streams_of(other.device), [null_mut()]);
    let good = context(one.device, &[]);
    let adopt = |given: ms_cuda_context, options: &ms_device_options| {
        // SAFETY: all pointers are valid, and both devices outlive the one that is opened here.
        let opened = Opened::by(false, |device, driver| unsafe {
            ms_device_adopt_cuda(&raw const given, options, device, driver)
        });
        opened.err()
    };
    let limited = ms_device_options {
        memory_limit: 1 << 20,
        ..options(1)
    };
    let wrong = Some(ms_status::InvalidArgument);
    assert_eq!(adopt(good, &limited), wrong);
    let no_context = ms_cuda_context {
        context: null_mut(),
        ..good
    };
    assert_eq!(adopt(no_context, &options(1)), wrong);
    let null_stream = context(one.device, &null_stream);
    assert_eq!(adopt(null_stream, &options(1)), wrong);
    let mixed = context(one.device, &streams);
    assert_eq!(adopt(mixed, &options(1)), Some(ms_status::Unavailable));
    let text = last_error();
    assert!(text.contains("to another context"), "{text}");
    drop((one, other));
    gpu.assert_clean();
}

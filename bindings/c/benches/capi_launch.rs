//! What a launch costs its caller through C, beside one through Rust: 3 buffers and 8 words, on a driven device, so that
//! no other thread runs. The ways take turns, so that all see the same machine.
//!
//!     cargo bench -p millstream-capi --bench capi_launch

use std::ffi::CStr;
use std::hint::black_box;
use std::ptr::null;
use std::time::{Duration, Instant};

use millstream::{
    Cpu, CubeCount, Device, DeviceOptions, Driver, Handle, Kernel, KernelHandle, Stream, read,
    update, write,
};
use millstream_capi::argument::{ms_argument, ms_value};
use millstream_capi::buffer::{ms_buffer, ms_buffer_create};
use millstream_capi::client::{ms_client, ms_client_create};
use millstream_capi::device::{ms_device, ms_driver, ms_pump};
use millstream_capi::kernel::{
    ms_binding_desc, ms_kernel, ms_kernel_create, ms_kernel_desc, ms_scalar_desc, ms_source,
    ms_source_kind,
};
use millstream_capi::launch::{ms_cubes, ms_launch};
use millstream_capi::native::ms_launch_args;
use millstream_capi::opening::{ms_device_open_driven, ms_device_options};
use millstream_capi::status::ms_status;
use millstream_capi::stream::{ms_stream, ms_stream_create};
use millstream_capi::types::{ms_access, ms_type};

/// Launches in a row, fewer than the mailbox holds.
const BATCH: u32 = 64;
const ROUNDS: usize = 4_000;
const MAILBOX: u32 = 256;
const WORDS: usize = 8;

fn main() {
    let (rust, c) = (Rust::open(), C::open());
    let mut times: [Vec<f64>; 3] = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        times[0].push(time(|| rust.launch()));
        rust.pump();
        times[1].push(time(|| rust.launch_words()));
        rust.pump();
        times[2].push(time(|| c.launch()));
        c.pump();
    }
    println!(
        "ns a launch: 3 buffers, {WORDS} words of scalars; {ROUNDS} rounds of {BATCH} launches"
    );
    for (name, times) in ["Rust, typed", "Rust, words", "C"]
        .into_iter()
        .zip(&mut times)
    {
        times.sort_by(f64::total_cmp);
        println!(
            "{name:<12} median {:6.1}   least {:6.1}",
            times[times.len() / 2],
            times[0]
        );
    }
}

/// Returns the nanoseconds of one call.
fn time(launch: impl Fn()) -> f64 {
    let start = Instant::now();
    for _ in 0..BATCH {
        launch();
    }
    start.elapsed().as_nanos() as f64 / f64::from(BATCH)
}

struct Rust {
    stream: Stream,
    kernel: KernelHandle,
    buffers: [Handle<f32>; 3],
    driver: std::cell::RefCell<Driver>,
    _device: Device,
}

impl Rust {
    fn open() -> Self {
        let options = DeviceOptions::default().mailbox_capacity(MAILBOX as usize);
        let opened = Device::open_driven(Cpu::default().threads(1).queues(1), options);
        let (device, driver) = opened.expect("the processor is a device");
        let client = device.new_client();
        let stream = client.new_stream();
        let mut kernel = Kernel::new("nothing")
            .reads::<f32>("a")
            .writes::<f32>("b")
            .updates::<f32>("c");
        for index in 0..WORDS {
            kernel = kernel.scalar::<u64>(format!("s{index}"));
        }
        let kernel = client
            .kernel(kernel.native(|_, _| ()))
            .expect("a native kernel");
        let buffers = [(); 3].map(|()| stream.empty::<f32>(64).expect("memory"));
        Self {
            stream,
            kernel,
            buffers,
            driver: driver.into(),
            _device: device,
        }
    }

    fn launch(&self) {
        let [a, b, c] = &self.buffers;
        let s = black_box(7_u64);
        let arguments = (read(a), write(b), update(c), [s; WORDS]);
        self.stream
            .launch(&self.kernel, [1, 1, 1], arguments)
            .expect("room");
    }

    fn launch_words(&self) {
        let [a, b, c] = &self.buffers;
        let bindings = [
            read(a.as_bytes()),
            write(b.as_bytes()),
            update(c.as_bytes()),
        ];
        let words = [black_box(7_u64); WORDS];
        let launched =
            self.stream
                .launch_words(&self.kernel, CubeCount::single(), &bindings, &words);
        launched.expect("room");
    }

    fn pump(&self) {
        while self.driver.borrow_mut().pump(Duration::from_millis(10)) {}
    }
}

struct C {
    stream: *mut ms_stream,
    kernel: *mut ms_kernel,
    buffers: [*mut ms_buffer; 3],
    driver: *mut ms_driver,
}

impl C {
    fn open() -> Self {
        let mut made = Self {
            stream: std::ptr::null_mut(),
            kernel: std::ptr::null_mut(),
            buffers: [std::ptr::null_mut(); 3],
            driver: std::ptr::null_mut(),
        };
        let (mut device, mut client): (*mut ms_device, *mut ms_client) =
            (std::ptr::null_mut(), std::ptr::null_mut());
        let options = ms_device_options {
            size: size_of::<ms_device_options>() as u32,
            ordinal: 0,
            queues: 1,
            threads: 1,
            memory_limit: 0,
            seed: 0,
            sample_latencies: 0,
            mailbox_capacity: MAILBOX,
            log_level: 0,
            log_submissions: 0,
        };
        // SAFETY: all pointers are valid, and the handles live as long as the process.
        unsafe {
            ok(ms_device_open_driven(
                c"cpu".as_ptr(),
                &raw const options,
                &raw mut device,
                &raw mut made.driver,
            ));
            ok(ms_client_create(device, null(), &raw mut client));
            ok(ms_stream_create(client, &raw mut made.stream));
            for buffer in &mut made.buffers {
                ok(ms_buffer_create(made.stream, 256, buffer));
            }
            made.kernel = kernel(client);
        }
        made
    }

    fn launch(&self) {
        let size = size_of::<ms_argument>() as u32;
        let s = ms_argument {
            size,
            kind: ms_type::U64 as u32,
            value: ms_value { u64: black_box(7) },
        };
        let [a, b, c] = self.buffers;
        let bind = |access: ms_access, buffer| ms_argument {
            size,
            kind: access as u32,
            value: ms_value { buffer },
        };
        let (a, b, c) = (
            bind(ms_access::Read, a),
            bind(ms_access::Write, b),
            bind(ms_access::Update, c),
        );
        let arguments = [a, b, c, s, s, s, s, s, s, s, s];
        // By a pointer that the optimizer does not know, as a call of a shared library is.
        let launch: unsafe extern "C" fn(_, _, _, _, _) -> _ = black_box(ms_launch);
        let cubes = ms_cubes { x: 1, y: 1, z: 1 };
        // SAFETY: the handles live, and the arguments are an array of this length.
        ok(unsafe {
            launch(
                self.stream.cast_const(),
                self.kernel.cast_const(),
                cubes,
                arguments.as_ptr(),
                arguments.len(),
            )
        });
    }

    fn pump(&self) {
        let mut more = true;
        while more {
            // SAFETY: the driver lives.
            ok(unsafe { ms_pump(self.driver, 10_000_000, &raw mut more) });
        }
    }
}

/// # Safety
/// The client lives.
unsafe fn kernel(client: *mut ms_client) -> *mut ms_kernel {
    unsafe extern "C" fn nothing(_: *const ms_launch_args, _: *mut std::ffi::c_void) {}
    let binding = |access: ms_access, name: &'static CStr| ms_binding_desc {
        size: size_of::<ms_binding_desc>() as u32,
        access: access as u32,
        dtype: ms_type::F32 as u32,
        reserved: 0,
        name: name.as_ptr(),
    };
    let bindings = [
        binding(ms_access::Read, c"a"),
        binding(ms_access::Write, c"b"),
        binding(ms_access::Update, c"c"),
    ];
    let scalars = [ms_scalar_desc {
        size: size_of::<ms_scalar_desc>() as u32,
        dtype: ms_type::U64 as u32,
        name: c"s".as_ptr(),
    }; WORDS];
    let source = ms_source {
        size: size_of::<ms_source>() as u32,
        kind: ms_source_kind::Native as u32,
        data: null(),
        bytes: 0,
        function: Some(nothing),
        user: std::ptr::null_mut(),
        drop: None,
    };
    let desc = ms_kernel_desc {
        size: size_of::<ms_kernel_desc>() as u32,
        may_alias: 0,
        name: c"nothing".as_ptr(),
        bindings: bindings.as_ptr(),
        binding_count: bindings.len(),
        scalars: scalars.as_ptr(),
        scalar_count: scalars.len(),
        sources: &raw const source,
        source_count: 1,
        threads: [0; 3],
        shared_bytes: 0,
        metadata_words: 0,
        reserved: 0,
    };
    let mut kernel = std::ptr::null_mut();
    // SAFETY: the description is valid until the call returns, and the caller keeps the client.
    ok(unsafe { ms_kernel_create(client, &raw const desc, &raw mut kernel) });
    kernel
}

fn ok(status: ms_status) {
    assert_eq!(status, ms_status::Ok);
}

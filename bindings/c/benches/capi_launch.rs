//! What a launch costs its caller through C, beside one through Rust: 3 buffers and 8 words, on a driven device, so that
//! no other thread runs. The ways take turns, so that all see the same machine.
//!
//!     cargo bench -p millstream-capi --bench capi_launch

#![allow(clippy::unwrap_used, reason = "a bench")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::ffi::c_void;
use std::hint::black_box;
use std::ptr::null;
use std::time::{Duration, Instant};

use millstream::{
    Cpu, CubeCount, Device, DeviceOptions, Driver, Handle, Kernel, KernelHandle, Stream, read,
    update, write,
};
use millstream_capi::argument::ms_value;
use millstream_capi::buffer::{ms_buffer, ms_buffer_create};
use millstream_capi::client::ms_client_create;
use millstream_capi::device::ms_pump;
use millstream_capi::kernel::{ms_source, ms_source_kind};
use millstream_capi::launch::{ms_cubes, ms_launch};
use millstream_capi::native::ms_launch_args;
use millstream_capi::opening::{ms_device_open_driven, ms_device_options};
use millstream_capi::stream::{ms_stream, ms_stream_create};
use millstream_capi::types::{ms_access, ms_type};

use common::{argument, given, ok, zeroed};

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
    kernel: common::Kernel,
    buffers: [*mut ms_buffer; 3],
    opened: common::Opened,
}

impl C {
    fn open() -> Self {
        let options = ms_device_options {
            queues: 1,
            threads: 1,
            mailbox_capacity: MAILBOX,
            ..zeroed()
        };
        let name = c"cpu".as_ptr();
        // SAFETY: all pointers are valid, and the handles live as long as the process.
        unsafe {
            let opened = common::Opened::by(true, |device, driver| {
                ms_device_open_driven(name, &raw const options, device, driver)
            });
            let opened = opened.expect("the processor is a device");
            let client = given(|out| ms_client_create(opened.device, null(), out));
            let stream = given(|out| ms_stream_create(client, out));
            let buffer = |()| given(|out| ms_buffer_create(stream, 256, out));
            let source = ms_source {
                kind: ms_source_kind::Native as u32,
                function: Some(nothing),
                ..zeroed()
            };
            let buffers = (&ACCESSES[..], ms_type::F32);
            let scalars = (WORDS, ms_type::U64);
            Self {
                stream,
                kernel: common::Kernel::new(client, c"nothing", buffers, scalars, &source),
                buffers: [(); 3].map(buffer),
                opened,
            }
        }
    }

    fn launch(&self) {
        let s = argument(ms_type::U64 as u32, ms_value { u64: black_box(7) });
        let [a, b, c] = self.buffers;
        let bind = |access: ms_access, buffer| argument(access as u32, ms_value { buffer });
        let [read, write, update] = ACCESSES;
        let (a, b, c) = (bind(read, a), bind(write, b), bind(update, c));
        let arguments = [a, b, c, s, s, s, s, s, s, s, s];
        // By a pointer that the optimizer does not know, as a call of a shared library is.
        let launch: unsafe extern "C" fn(_, _, _, _, _) -> _ = black_box(ms_launch);
        let cubes = ms_cubes { x: 1, y: 1, z: 1 };
        let (stream, kernel) = (self.stream.cast_const(), self.kernel.0.cast_const());
        // SAFETY: the handles live, and the arguments are an array of this length.
        ok(unsafe { launch(stream, kernel, cubes, arguments.as_ptr(), arguments.len()) });
    }

    fn pump(&self) {
        let mut more = true;
        while more {
            // SAFETY: the driver lives.
            ok(unsafe { ms_pump(self.opened.driver, 10_000_000, &raw mut more) });
        }
    }
}

const ACCESSES: [ms_access; 3] = [ms_access::Read, ms_access::Write, ms_access::Update];

unsafe extern "C" fn nothing(_: *const ms_launch_args, _: *mut c_void) {}

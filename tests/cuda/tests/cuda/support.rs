//! Shared by the tests: a device on the fake driver, and kernels.

use std::ops::Deref;
use std::time::Duration;

use fake_cuda::Session;
use millstream_actors::Device;
use millstream_client::arguments::{CubeCount, write};
use millstream_client::handle::Handle;
use millstream_client::{ComputeClient, KernelHandle, Stream};
use millstream_cuda::Cuda;
use millstream_protocol::{DeviceOptions, Kernel, MemoryOptions, OpenError, Source};

/// A session of the fake. At its end, after the later locals of a test are dropped, the fake has nothing to report.
pub(crate) struct Gpu {
    session: Option<Session>,
    seed: u64,
    /// Whether resources may be left: a lost device frees nothing (I10).
    pub(crate) may_leak: bool,
}

impl Gpu {
    fn new(session: Result<Session, fake_cuda::NotLoaded>, seed: u64) -> Self {
        Self {
            session: Some(session.unwrap_or_else(|error| panic!("{error}"))),
            seed,
            may_leak: false,
        }
    }

    /// Ends the session and returns its reports.
    pub(crate) fn end(mut self) -> Vec<String> {
        self.session.take().map_or(Vec::new(), Session::end)
    }
}

impl Deref for Gpu {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session.as_ref().expect("it has not ended")
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // The session prints the reports of a test that has failed.
        if let Some(session) = self.session.take_if(|_| !std::thread::panicking()) {
            let mut reports = session.end();
            reports.retain(|report| !(self.may_leak && report.starts_with("leak: ")));
            assert!(reports.is_empty(), "seed {}: {reports:#?}", self.seed);
        }
    }
}

/// Begins a session of the fake with this seed.
pub(crate) fn gpu(seed: u64) -> Gpu {
    Gpu::new(Session::begin(seed), seed)
}

/// As [`gpu`], but the GPU executes only in calls that wait or query.
pub(crate) fn stepped(seed: u64) -> Gpu {
    Gpu::new(Session::begin_stepped(seed), seed)
}

/// A timeout that no test reaches, even on a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Device options with pages of 256 KiB, since the fake fills new memory with a pattern. The depth of queues follows no
/// times, so that numbers of calls do not depend on the load of the machine.
pub(crate) fn options() -> DeviceOptions {
    let memory = MemoryOptions::default().page_bytes(256 << 10);
    let options = DeviceOptions::default().memory(memory);
    options.max_in_flight_time(Duration::MAX)
}

/// Opens a device with this number of queues on the GPU of the current session.
pub(crate) fn try_open(queues: usize) -> Result<Device, OpenError> {
    Device::open_with(Cuda::ordinal(0).queues(queues), options())
}

/// As [`try_open`], for devices that can be opened.
pub(crate) fn open(queues: usize) -> Device {
    try_open(queues).unwrap()
}

/// As [`open`], with a client and a stream.
pub(crate) fn opened(queues: usize) -> (Device, ComputeClient, Stream) {
    let device = open(queues);
    let client = device.new_client();
    let stream = client.new_stream();
    (device, client, stream)
}

/// A kernel that computes `y = a * x + y`.
pub(crate) fn saxpy() -> Kernel {
    Kernel::new("saxpy")
        .reads::<f32>("x")
        .updates::<f32>("y")
        .scalar::<f32>("a")
        .scalar::<u32>("n")
        .source(ptx(include_str!("../kernels/saxpy.ptx")))
}

/// A kernel that computes `to[..] = value`.
pub(crate) fn fill() -> Kernel {
    Kernel::new("fill")
        .writes::<u32>("to")
        .scalar::<u32>("value")
        .scalar::<u32>("n")
        .source(ptx(include_str!("../kernels/fill.ptx")))
}

/// Launches [`fill`] over all elements.
pub(crate) fn launch_fill(stream: &Stream, fill: &KernelHandle, to: &Handle<u32>, value: u32) {
    let arguments = (write(to), value, to.len() as u32);
    let cubes = CubeCount::cover(to.len(), 256);
    stream.launch(fill, cubes, arguments).unwrap();
}

/// Waits until streams are at these kernels, which a test holds.
pub(crate) fn wait_until_at<const N: usize>(gpu: &Gpu, kernels: [&str; N]) {
    while kernels.map(|name| gpu.streams_at_kernel(name)) != [1; N] {
        std::thread::yield_now();
    }
}

/// A kernel that adds all of `from` to `sum`.
pub(crate) fn sum() -> Kernel {
    Kernel::new("sum")
        .reads::<u32>("from")
        .updates::<u32>("sum")
        .scalar::<u32>("n")
        .source(ptx(include_str!("../kernels/sum.ptx")))
}

/// A kernel source of PTX.
pub(crate) fn ptx(text: &str) -> Source {
    Source::Ptx(text.into())
}

//! Shared by the tests: a device on the fake driver, and kernels.

use std::time::Duration;

use fake_cuda::Session;
use millstream_actors::Device;
use millstream_cuda::Cuda;
use millstream_protocol::{DeviceOptions, Kernel, MemoryOptions, OpenError, Source};

/// Begins a session of the fake with this seed.
pub(crate) fn gpu(seed: u64) -> Session {
    Session::begin(seed).unwrap_or_else(|error| panic!("{error}"))
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

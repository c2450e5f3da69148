//! What the tests share: a device on the fake, and kernels.

use std::time::Duration;

use fake_cuda::Session;
use millstream_actors::Device;
use millstream_cuda::Cuda;
use millstream_protocol::error::OpenError;
use millstream_protocol::kernel::{Kernel, Source};
use millstream_protocol::memory::MemoryOptions;
use millstream_protocol::options::DeviceOptions;

/// A GPU of this seed's.
pub(crate) fn gpu(seed: u64) -> Session {
    Session::begin(seed).unwrap_or_else(|error| panic!("{error}"))
}

/// Longer than anything here takes, on whatever machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Pages of 256 KiB: a device that does not spend its time on filling memory.
pub(crate) fn options() -> DeviceOptions {
    DeviceOptions::default().memory(MemoryOptions::default().page_bytes(256 << 10))
}

/// Opens a device with so many queues on the GPU of the session that was begun.
pub(crate) fn try_open(queues: usize) -> Result<Device, OpenError> {
    Device::open_with(Cuda::ordinal(0).queues(queues), options())
}

pub(crate) fn open(queues: usize) -> Device {
    try_open(queues).unwrap()
}

/// `y = a * x + y`
pub(crate) fn saxpy() -> Kernel {
    Kernel::new("saxpy")
        .reads::<f32>("x")
        .updates::<f32>("y")
        .scalar::<f32>("a")
        .scalar::<u32>("n")
        .source(ptx(include_str!("../kernels/saxpy.ptx")))
}

/// `to[..] = value`
pub(crate) fn fill() -> Kernel {
    Kernel::new("fill")
        .writes::<u32>("to")
        .scalar::<u32>("value")
        .scalar::<u32>("n")
        .source(ptx(include_str!("../kernels/fill.ptx")))
}

/// `sum += from[..]`
pub(crate) fn sum() -> Kernel {
    Kernel::new("sum")
        .reads::<u32>("from")
        .updates::<u32>("sum")
        .scalar::<u32>("n")
        .source(ptx(include_str!("../kernels/sum.ptx")))
}

pub(crate) fn ptx(text: &str) -> Source {
    Source::Ptx(text.into())
}

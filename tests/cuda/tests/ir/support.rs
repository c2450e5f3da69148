//! A device on the fake driver that runs programs.

use std::cell::Cell;

use fake_cuda::Session;
use millstream_actors::Device;
use millstream_client::{ComputeClient, Stream};
use millstream_cuda::Cuda;
use millstream_kernel_cases::Runs;
use millstream_protocol::{DeviceOptions, MemoryOptions};

use crate::library::library;

/// A fake GPU, a device on it, and a stream. Dropping it closes the device and asserts that the fakes report nothing: no
/// race, no access out of bounds, no leak.
pub(crate) struct Gpu {
    stream: Stream,
    client: ComputeClient,
    device: Device,
    end: End,
}

/// Asserts at its drop, after the device is closed.
struct End {
    session: Option<Session>,
    /// Live objects of the fake cuBLASLt before this device was opened. Lost devices of earlier tests leave theirs.
    objects_before: i64,
    may_leak: Cell<bool>,
}

impl Drop for End {
    fn drop(&mut self) {
        if let Some(session) = self.session.take_if(|_| !std::thread::panicking()) {
            let leaks = library().living() - self.objects_before;
            let may_leak = self.may_leak.get();
            assert!(
                may_leak || leaks == 0,
                "the device leaks objects of cuBLASLt"
            );
            if !may_leak {
                session.assert_clean();
            }
        }
    }
}

impl Gpu {
    pub(crate) fn new(seed: u64) -> Self {
        Self::with(seed, |cuda| cuda)
    }

    /// As [`Self::new`], with other options of the backend.
    pub(crate) fn with(seed: u64, options: impl FnOnce(Cuda) -> Cuda) -> Self {
        let chosen = options(Cuda::ordinal(0).queues(1));
        let session = Session::begin(seed).unwrap_or_else(|error| panic!("{error}"));
        let options =
            DeviceOptions::default().memory(MemoryOptions::default().page_bytes(256 << 10));
        // The fake supports only PTX.
        let cuda = chosen.compile_to_ptx(true);
        let objects_before = library().living();
        let device = Device::open_with(cuda, options).unwrap();
        let client = device.new_client();
        Self {
            stream: client.new_stream(),
            client,
            device,
            end: End {
                session: Some(session),
                objects_before,
                may_leak: Cell::new(false),
            },
        }
    }

    /// Returns the device.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the session of the fake driver.
    pub(crate) fn session(&self) -> &Session {
        self.end.session.as_ref().expect("it has not ended")
    }

    /// The device is lost, and leaves its resources.
    pub(crate) fn may_leak(&self) {
        self.end.may_leak.set(true);
    }

    /// Returns a description of the last launch.
    pub(crate) fn launched(&self) -> String {
        self.session().launched().pop().unwrap_or_default()
    }

    /// Returns the number of live cuBLASLt objects of this device.
    pub(crate) fn library_objects(&self) -> i64 {
        library().living() - self.end.objects_before
    }
}

impl Runs for Gpu {
    fn stream(&self) -> (&ComputeClient, &Stream) {
        (&self.client, &self.stream)
    }
}

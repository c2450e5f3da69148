//! An open device with a stream, for tests of kernels. The validation layer watches it.

use std::sync::Arc;

use millstream::ir::Program;
use millstream::ir::ssa::Function;
use millstream::{ComputeClient, Device, Error, Kernel, KernelHandle, Stream};
use millstream_conformance::Checks;
use millstream_kernel_cases::Runs;
use millstream_kernel_cases::launch::Launch;

use crate::subject::{checked, unavailable, with_queues};

/// How kernels receive their buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Buffers {
    Addresses,
    Descriptors,
}

/// A device, a client and a stream of it.
pub(crate) struct Gpu {
    pub(crate) stream: Stream,
    pub(crate) client: ComputeClient,
    pub(crate) device: Device,
    /// Dropped last, after the device has closed.
    _checks: Box<dyn Checks>,
}

impl Gpu {
    /// Opens the first GPU with one queue. Returns `None` and prints why if this machine has no device to test.
    pub(crate) fn open(buffers: Buffers) -> Option<Self> {
        Self::open_with_queues(buffers, 1)
    }

    /// As [`Self::open`], with this number of queues.
    pub(crate) fn open_with_queues(buffers: Buffers, queues: usize) -> Option<Self> {
        if let Some(reason) = unavailable() {
            println!("skipped: {reason}");
            return None;
        }
        let options = with_queues(queues);
        let opening = checked(options.descriptors(buffers == Buffers::Descriptors));
        let device = Device::open(opening.kind).unwrap();
        let client = device.new_client();
        Some(Self {
            stream: client.new_stream(),
            client,
            device,
            _checks: opening.checks,
        })
    }

    /// Prepares a function.
    pub(crate) fn kernel(&self, function: Function) -> KernelHandle {
        let kernel = Kernel::from_program("tested", Arc::new(Program::Ssa(function)));
        self.client.kernel(kernel.unwrap()).unwrap()
    }

    /// Runs a launch on the stream.
    pub(crate) fn launch(&self, launch: Launch<'_>) -> Result<Vec<Vec<u8>>, Error> {
        launch.run(&self.client, &self.stream)
    }
}

impl Runs for Gpu {
    fn stream(&self) -> (&ComputeClient, &Stream) {
        (&self.client, &self.stream)
    }
}

//! millstream, used through its clients as by a user, over a device that does nothing.
//!
//! - [`null`]: that device.
//! - [`memory`]: heap bytes per live object. [`replay`]: recordings.
//! - [`server`]: the server alone, without threads.

pub(crate) mod memory;
mod null;
pub(crate) mod replay;
pub(crate) mod server;

use std::sync::Arc;

use millstream_actors::Device;
use millstream_client::arguments::{CubeCount, read, update, write};
use millstream_client::handle::Handle;
use millstream_client::{ComputeClient, KernelHandle, Stream};
use millstream_protocol::{Access, Kernel};
use null::Null;

use crate::contender::Contender;
use crate::instruments::callgrind;
use crate::noop::Mark;

/// A client of our device, with its own stream.
pub(crate) struct Ours {
    stream: Stream,
    client: ComputeClient,
    kernels: Arc<Kernels>,
    /// Shared by all clients; the last one drops it, after its other fields.
    _device: Arc<Device>,
}

/// The kernels of every launch, by their arguments.
struct Kernels {
    bare: KernelHandle,
    one: KernelHandle,
    three: KernelHandle,
    scalars: KernelHandle,
    begin_counting: KernelHandle,
    end_counting: KernelHandle,
}

/// Returns a kernel that is the marker `mark` to the null device.
fn marked(mark: Mark) -> Kernel {
    Kernel::new(null::name_of(mark))
}

fn over_three() -> Kernel {
    marked(Mark::None)
        .reads::<u8>("a")
        .reads::<u8>("b")
        .raw::<u8>("c", Access::Write)
}

impl Kernels {
    fn new(client: &ComputeClient) -> Self {
        let prepare = |kernel| {
            client
                .kernel(kernel)
                .expect("the null device accepts every kernel")
        };
        let scalars = (0..8).fold(over_three(), |kernel, _| kernel.scalar::<u64>("word"));
        Self {
            bare: prepare(marked(Mark::None)),
            one: prepare(marked(Mark::None).updates::<u8>("a")),
            three: prepare(over_three()),
            scalars: prepare(scalars),
            begin_counting: prepare(marked(Mark::BeginCounting)),
            end_counting: prepare(marked(Mark::EndCounting)),
        }
    }
}

impl Ours {
    fn on(device: Device) -> Self {
        let client = device.new_client();
        Self {
            stream: client.new_stream(),
            kernels: Arc::new(Kernels::new(&client)),
            client,
            _device: Arc::new(device),
        }
    }
}

impl Contender for Ours {
    type Buffer = Handle<u8>;

    /// The capacity of the mailbox.
    const QUEUE: u64 = 256;

    fn open() -> Self {
        Self::on(Device::open(Null::default()).expect("the null device opens"))
    }

    fn for_another_thread(&self) -> Self {
        Self {
            stream: self.client.new_stream(),
            client: self.client.clone(),
            kernels: self.kernels.clone(),
            _device: self._device.clone(),
        }
    }

    fn empty(&self, bytes: usize) -> Handle<u8> {
        self.stream.empty(bytes).expect("memory does not run out")
    }

    fn create(&self, bytes: &[u8]) -> Handle<u8> {
        self.stream.create(bytes).expect("memory does not run out")
    }

    fn launch(&self) {
        self.stream
            .launch(&self.kernels.bare, CubeCount::single(), ())
            .expect("the device is open");
    }

    fn launch_one(&self, buffer: &Handle<u8>) {
        self.stream
            .launch(&self.kernels.one, CubeCount::single(), (update(buffer),))
            .expect("the device is open");
    }

    fn launch_three_and_scalars(&self, [a, b, c]: &[Handle<u8>; 3]) {
        let word = std::hint::black_box(7_u64);
        let arguments = (
            read(a),
            read(b),
            write(c),
            word,
            word,
            word,
            word,
            word,
            word,
            word,
            word,
        );
        self.stream
            .launch(&self.kernels.scalars, CubeCount::single(), arguments)
            .expect("the device is open");
    }

    /// Launches the marker. For [`Mark::BeginCounting`] waits until the device has reached it, so that
    /// later tasks are counted from their admission on.
    fn launch_mark(&self, mark: Mark) {
        let kernel = match mark {
            Mark::BeginCounting => &self.kernels.begin_counting,
            Mark::EndCounting => &self.kernels.end_counting,
            Mark::None => &self.kernels.bare,
        };
        self.stream
            .launch(kernel, CubeCount::single(), ())
            .expect("the device is open");
        if mark == Mark::BeginCounting {
            callgrind::wait_for_arrival();
        }
    }

    /// Does nothing: tasks start without a flush.
    fn flush(&self) {}

    fn sync(&self) {
        self.stream.sync().wait().expect("the device is open");
    }

    fn read(&self, buffer: &Handle<u8>) -> Vec<u8> {
        self.stream.read(buffer).wait().expect("the device is open")
    }

    fn device_bytes(&self) -> u64 {
        let usage = self.client.memory_usage().wait();
        usage.expect("the device is open").device.reserved
    }
}

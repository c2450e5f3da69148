//! cubecl-runtime and cubecl-server 0.12.0-pre.1, used as cubecl's own runtimes use them.
//!
//! - [`server`]: the no-op device. [`kernels`]: its kernels.
//! - [`streams`]: its stream and scheduler types alone.

mod kernels;
mod server;
pub(crate) mod streams;

use cubecl_common::device::DeviceId;
use cubecl_environment::future::block_on;
use cubecl_server::client::Client;
use cubecl_server::memory_management::MemoryScope;
use cubecl_server::server::{CubeCount, Handle, KernelArguments, MetadataBindingInfo};

use crate::contender::Contender;
use crate::noop::Mark;

/// A client of the peer's device.
pub(crate) struct Peer {
    client: Client,
}

fn single() -> CubeCount {
    CubeCount::Static(1, 1, 1)
}

fn over(buffers: &[Handle]) -> KernelArguments {
    let with = |arguments: KernelArguments, buffer: &Handle| {
        arguments.with_buffer(buffer.clone().binding())
    };
    buffers.iter().fold(KernelArguments::new(), with)
}

impl Contender for Peer {
    type Buffer = Handle;

    /// The peer has two buffers of 32 tasks.
    const QUEUE: u64 = 64;

    fn open() -> Self {
        let client = Client::load::<server::NoopServer>(DeviceId {
            type_id: 0,
            index_id: 0,
        });
        Self { client }
    }

    /// Clones the client: the peer automatically gives each thread its own stream.
    fn for_another_thread(&self) -> Self {
        Self {
            client: self.client.clone(),
        }
    }

    fn empty(&self, bytes: usize) -> Handle {
        self.client.empty(bytes)
    }

    fn create(&self, bytes: &[u8]) -> Handle {
        self.client.create_from_slice(bytes)
    }

    fn launch(&self) {
        self.client
            .launch(Box::new(kernels::Noop), single(), KernelArguments::new());
    }

    fn launch_one(&self, buffer: &Handle) {
        let arguments = over(std::slice::from_ref(buffer));
        self.client
            .launch(Box::new(kernels::Noop), single(), arguments);
    }

    fn launch_three_and_scalars(&self, buffers: &[Handle; 3]) {
        let scalars = MetadataBindingInfo::custom(vec![7_u64; 8]);
        let arguments = over(buffers).with_info(scalars);
        self.client
            .launch(Box::new(kernels::Noop), single(), arguments);
    }

    fn launch_mark(&self, mark: Mark) {
        self.client.launch(
            Box::new(kernels::Marked(mark)),
            single(),
            KernelArguments::new(),
        );
    }

    fn flush(&self) {
        self.client.flush().expect("the peer flushes");
    }

    fn sync(&self) {
        block_on(self.client.sync()).expect("the peer synchronizes");
    }

    fn read(&self, buffer: &Handle) -> Vec<u8> {
        self.client
            .read_one(buffer.clone())
            .expect("the peer reads")
            .to_vec()
    }

    fn device_bytes(&self) -> u64 {
        self.client
            .memory_report(MemoryScope::CurrentStream)
            .usage()
            .bytes_reserved
    }
}

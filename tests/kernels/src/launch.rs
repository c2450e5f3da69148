//! Runs a program over buffers of bytes.

use std::sync::Arc;

use millstream_client::arguments::{CubeCount, bind};
use millstream_client::handle::Handle;
use millstream_client::{ComputeClient, Stream};
use millstream_ir::{Blocking, Program};
use millstream_protocol::{Error, Kernel};

/// A launch of a program.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// The program.
    pub program: Program,
    /// Its blocking.
    pub blocking: Blocking,
    /// The number of cubes, which only an SSA function uses.
    pub cubes: CubeCount,
    /// The contents of the buffers before.
    pub buffers: &'a [Vec<u8>],
    /// The launch words.
    pub words: &'a [u64],
}

impl Launch<'_> {
    /// Runs it on a stream of the client. Returns the contents of the buffers afterwards.
    ///
    /// # Errors
    /// The kernel or the launch is refused, or fails.
    pub fn run(self, client: &ComputeClient, stream: &Stream) -> Result<Vec<Vec<u8>>, Error> {
        let kernel = Kernel::from_program("tested", Arc::new(self.program)).unwrap();
        let specs = kernel.signature().bindings().to_vec();
        let kernel = client.kernel(kernel.with(self.blocking))?;
        let handles = self.buffers.iter().map(|bytes| stream.create(bytes));
        let handles: Vec<Handle<u8>> = handles.collect::<Result<_, _>>()?;
        let bindings = handles.iter().zip(&specs);
        let bindings: Vec<_> = bindings
            .map(|(handle, spec)| bind(handle, spec.access))
            .collect();
        stream.launch_words(&kernel, self.cubes, &bindings, self.words)?;
        let read = handles.iter().map(|handle| stream.read(handle).wait());
        read.collect()
    }
}

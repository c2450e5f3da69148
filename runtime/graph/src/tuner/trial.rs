//! Trials: candidates run on memory of their own, which the first one allocates.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};

use millstream_client::Stream;
use millstream_client::handle::Handle;
use millstream_protocol::Error;
use millstream_tune::Failure;

/// The byte that fills float buffers, so that they hold normal numbers of every type: 0.75 as `f32`.
pub(crate) const FILL_BYTE: u8 = 0x3f;

/// The memory of the candidates of one choice.
pub(crate) struct TrialMemory {
    stream: Stream,
    /// The number of bytes and the fill byte of each buffer.
    sizes: Vec<(u64, u8)>,
    /// The buffers, or the error of their allocation.
    buffers: OnceLock<Result<Vec<Handle<u8>>, Failure>>,
}

impl TrialMemory {
    pub(crate) fn new(stream: &Stream, sizes: Vec<(u64, u8)>) -> Arc<Self> {
        Arc::new(Self {
            stream: stream.clone(),
            sizes,
            buffers: OnceLock::new(),
        })
    }

    fn allocate(&self) -> Result<Vec<Handle<u8>>, Error> {
        let filled = |(bytes, fill): &(u64, u8)| {
            let buffer = self.stream.empty::<u8>(*bytes as usize)?;
            self.stream.fill(&buffer, *fill)?;
            Ok(buffer)
        };
        self.sizes.iter().map(filled).collect()
    }

    /// Returns a candidate: `prepare` compiles it at its first run, and `run` submits one run on the buffers.
    pub(crate) fn candidate<T: Send + Sync, E: Display>(
        self: Arc<Self>,
        prepare: impl Fn(&Stream) -> Result<T, E> + Send + Sync,
        run: impl Fn(&Stream, &T, &[Handle<u8>]) -> Result<(), E> + Send + Sync,
    ) -> impl Fn(()) -> Result<(), Failure> + Send + Sync {
        let prepared: OnceLock<Result<T, Failure>> = OnceLock::new();
        move |()| {
            let allocate = || self.allocate().map_err(Failure::new);
            let buffers = self.buffers.get_or_init(allocate).as_ref();
            let buffers = buffers.map_err(Clone::clone)?;
            let prepare = || prepare(&self.stream).map_err(Failure::new);
            let prepared = prepared.get_or_init(prepare).as_ref();
            let prepared = prepared.map_err(Clone::clone)?;
            run(&self.stream, prepared, buffers).map_err(Failure::new)
        }
    }
}

//! Streams of other libraries that use the memory of a guard, by its address.

use std::sync::Arc;

use cudarc::driver::sys::CUstream;
use millstream_protocol::Refused;

use crate::device::CudaResources;
use crate::driver::{Context, CuStream};

/// A stream of another library that uses the memory of a guard. [`ConsumerStream::synchronize`] before the guard is
/// dropped, so that later tasks wait for the work of the library.
pub struct ConsumerStream {
    context: Arc<Context>,
    stream: CuStream,
}

impl CudaResources {
    /// Returns the stream with this handle as a user of the bound memory. 1 is the legacy default stream. A guard is
    /// given once the GPU has completed the tasks before it, so the stream need not wait for them.
    ///
    /// # Errors
    /// The stream belongs to another context, or the driver refuses it.
    ///
    /// # Safety
    /// The stream lives as long as the value. The handle is not that of the default stream of a thread (2).
    pub unsafe fn consumer(&self, stream: usize) -> Result<ConsumerStream, Refused> {
        let context = &self.context;
        let _current = context.push_current()?;
        // SAFETY: the caller guarantees that the stream lives.
        match unsafe { CuStream::adopt(context, stream as CUstream) }? {
            Some(stream) => Ok(ConsumerStream {
                context: context.clone(),
                stream,
            }),
            None => Err(Refused::Task(
                "the stream belongs to another context than the device".to_owned(),
            )),
        }
    }
}

impl ConsumerStream {
    /// Blocks until the stream has completed the work that it has now.
    ///
    /// # Errors
    /// The driver's error; if the GPU is lost, the device reports it as well.
    pub fn synchronize(&self) -> Result<(), Refused> {
        let _current = self.context.push_current()?;
        Ok(self.stream.synchronize()?)
    }
}

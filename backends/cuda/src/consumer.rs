//! Streams of other libraries that use the memory of a guard, by its address.
//!
//! The stream is used last when its use ends ([`ConsumerStream::end`]), and from then on an event stands for it: the library
//! may destroy the stream at once. No call waits for the GPU.

use std::sync::Arc;

use cudarc::driver::sys::CUstream;
use millstream_protocol::Refused;

use crate::device::CudaResources;
use crate::driver::{Context, CuEvent, CuStream};
use crate::lane::Mark;

/// A stream of another library that uses the memory of a guard. Keep the guard until the use has ended, so that later tasks
/// wait for the work of the library.
pub struct ConsumerStream {
    context: Arc<Context>,
    stream: CuStream,
    /// Recorded at the end of the use.
    end: CuEvent,
}

impl CudaResources {
    /// Returns the stream with this handle as a user of the bound memory. 1 is the legacy default stream. A guard is
    /// given once the GPU has completed the tasks before it, so the stream need not wait for them.
    ///
    /// # Errors
    /// The stream belongs to another context, or the driver refuses it.
    ///
    /// # Safety
    /// The stream lives until [`ConsumerStream::end`] or the drop of the value. The handle is not that of the default stream of a thread (2).
    pub unsafe fn consumer(&self, stream: usize) -> Result<ConsumerStream, Refused> {
        let context = &self.context;
        let _current = context.push_current()?;
        // SAFETY: the caller guarantees that the stream lives.
        match unsafe { CuStream::adopt(context, stream as CUstream) }? {
            Some(stream) => Ok(ConsumerStream {
                context: context.clone(),
                stream,
                end: CuEvent::new(context)?,
            }),
            None => Err(Refused::Task(
                "the stream belongs to another context than the device".to_owned(),
            )),
        }
    }
}

impl ConsumerStream {
    /// Ends the use with the work that the stream has now. Never waits for it. The stream is not used any more.
    ///
    /// # Errors
    /// [`Refused::Lost`]; any other error, such as that of a stream in a capture, says that the end cannot be learned.
    pub fn end(self) -> Result<Mark, Refused> {
        let _current = self.context.push_current()?;
        if self.stream.is_capturing()? {
            let why = "the stream is in a capture, whose work may run at any later time";
            return Err(Refused::Task(why.to_owned()));
        }
        self.stream.record(&self.end)?;
        Ok(Mark {
            context: self.context,
            event: Arc::new(self.end),
        })
    }
}

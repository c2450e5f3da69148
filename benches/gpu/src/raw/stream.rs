//! Streams and events.

use super::{Gpu, call};
use crate::error::BenchError;

/// `CU_STREAM_NON_BLOCKING`
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`
const UNTIMED: u32 = 2;

/// A stream. Dropping it waits for its work.
pub(crate) struct Stream<'a> {
    gpu: &'a Gpu,
    pub(super) raw: u64,
}

/// An event.
pub(crate) struct Event<'a> {
    gpu: &'a Gpu,
    raw: u64,
}

impl Gpu {
    pub(crate) fn stream(&self) -> Result<Stream<'_>, BenchError> {
        let mut raw = 0;
        call!(
            self,
            cuStreamCreateWithPriority(&raw mut raw, NON_BLOCKING, 0)
        )?;
        Ok(Stream { gpu: self, raw })
    }

    pub(crate) fn event(&self, timed: bool) -> Result<Event<'_>, BenchError> {
        let (mut raw, flags) = (0, if timed { 0 } else { UNTIMED });
        call!(self, cuEventCreate(&raw mut raw, flags))?;
        Ok(Event { gpu: self, raw })
    }
}

impl Stream<'_> {
    /// Waits until all work of the stream has completed.
    pub(crate) fn synchronize(&self) -> Result<(), BenchError> {
        call!(self.gpu, cuStreamSynchronize(self.raw))
    }

    /// Makes the stream wait for an event.
    #[inline]
    pub(crate) fn wait_for(&self, event: &Event<'_>) -> Result<(), BenchError> {
        call!(self.gpu, cuStreamWaitEvent(self.raw, event.raw, 0))
    }

    /// Makes the stream write a word to this address.
    #[inline]
    pub(crate) fn write_value(&self, address: u64, value: u64) -> Result<(), BenchError> {
        call!(
            self.gpu,
            cuStreamWriteValue64_v2(self.raw, address, value, 0)
        )
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        let _ = self.synchronize();
        let _ = call!(self.gpu, cuStreamDestroy_v2(self.raw));
    }
}

impl Event<'_> {
    #[inline]
    pub(crate) fn record(&self, stream: &Stream<'_>) -> Result<(), BenchError> {
        call!(self.gpu, cuEventRecord(self.raw, stream.raw))
    }

    /// Queries the event. An event that has not completed (`CUDA_ERROR_NOT_READY`) is not an error.
    #[inline]
    pub(crate) fn query(&self) -> Result<(), BenchError> {
        match call!(self.gpu, cuEventQuery(self.raw)) {
            Err(BenchError::Call { code: 600, .. }) => Ok(()),
            answer => answer,
        }
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        let _ = call!(self.gpu, cuEventDestroy_v2(self.raw));
    }
}

//! Streams and events of the driver.

use std::sync::Arc;

use cudarc::driver::sys::{CUevent, CUstream};

use super::{Code, Context};

/// The stream does not synchronize with the legacy default stream, which other code of the process may use.
const NON_BLOCKING: u32 = 1;
/// Waiting threads sleep (1). The event records no time (2), which makes it several times cheaper to record.
const BLOCKING_UNTIMED: u32 = 1 | 2;
/// The event records its time.
const TIMED: u32 = 0;

/// A stream of the driver: the order of one queue.
pub(crate) struct CuStream {
    context: Arc<Context>,
    raw: CUstream,
    /// Whether this value created the stream and destroys it.
    owned: bool,
}

// SAFETY: the driver accepts a stream on any thread.
unsafe impl Send for CuStream {}
// SAFETY: as above.
unsafe impl Sync for CuStream {}

impl CuStream {
    /// Creates a stream with this priority, as the driver counts.
    pub(crate) fn new(context: &Arc<Context>, priority: i32) -> Result<Self, Code> {
        let mut raw: CUstream = std::ptr::null_mut();
        // SAFETY: the context is current on the thread that opens the device.
        let answer = unsafe { (context.api().create_stream)(&raw mut raw, NON_BLOCKING, priority) };
        Code::check("cuStreamCreateWithPriority", answer)?;
        Ok(Self {
            context: context.clone(),
            raw,
            owned: true,
        })
    }

    /// Adopts an application's stream. Returns `None` if the stream belongs to another context.
    ///
    /// # Safety
    /// The stream must outlive the value.
    pub(crate) unsafe fn adopt(
        context: &Arc<Context>,
        raw: CUstream,
    ) -> Result<Option<Self>, Code> {
        let mut of = std::ptr::null_mut();
        // SAFETY: the caller guarantees that the stream lives; the out pointer is valid.
        let answer = unsafe { (context.api().stream_context)(raw, &raw mut of) };
        Code::check("cuStreamGetCtx", answer)?;
        Ok((of == context.raw()).then(|| Self {
            context: context.clone(),
            raw,
            owned: false,
        }))
    }

    #[inline]
    pub(crate) fn raw(&self) -> CUstream {
        self.raw
    }

    /// Records `event` at the end of the stream.
    #[inline]
    pub(crate) fn record(&self, event: &CuEvent) -> Result<(), Code> {
        // SAFETY: both are alive and belong to one context.
        let answer = unsafe { (self.context.api().record)(event.raw, self.raw) };
        Code::check("cuEventRecord", answer)
    }

    /// Makes later work of the stream wait for the event, on the GPU.
    #[inline]
    pub(crate) fn wait(&self, event: &CuEvent) -> Result<(), Code> {
        // SAFETY: both are alive and belong to one context; the flags must be 0.
        let answer = unsafe { (self.context.api().stream_wait)(self.raw, event.raw, 0) };
        Code::check("cuStreamWaitEvent", answer)
    }

    /// Writes 8 bytes to memory once all earlier work of the stream has completed.
    pub(crate) fn write_value(&self, address: u64, value: u64) -> Result<(), Code> {
        const CALL: &str = "cuStreamWriteValue64";
        let Some(write) = self.context.api().write_value else {
            return Err(Code::new(CALL, Code::NOT_FOUND));
        };
        // SAFETY: the caller passes an address that the GPU may write; with flags 0 the driver issues a system-wide
        // fence before the write.
        Code::check(CALL, unsafe { write(self.raw, address, value, 0) })
    }

    /// Returns `true` if all work of the stream has completed. An error means that the context is destroyed.
    pub(crate) fn is_idle(&self) -> Result<bool, Code> {
        // SAFETY: the stream is alive.
        let answer = unsafe { (self.context.api().query_stream)(self.raw) };
        Code::is_ready("cuStreamQuery", answer)
    }

    /// Blocks until all work of the stream has completed.
    pub(crate) fn synchronize(&self) -> Result<(), Code> {
        // SAFETY: the stream is alive.
        let answer = unsafe { (self.context.api().synchronize_stream)(self.raw) };
        Code::check("cuStreamSynchronize", answer)
    }
}

impl Drop for CuStream {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        self.context.destroy("cuStreamDestroy", |api| {
            // SAFETY: created once, destroyed once. The driver lets the stream complete its work first.
            unsafe { (api.destroy_stream)(self.raw) }
        });
    }
}

/// An event of the driver.
pub(crate) struct CuEvent {
    context: Arc<Context>,
    raw: CUevent,
}

// SAFETY: the driver accepts an event on any thread.
unsafe impl Send for CuEvent {}
// SAFETY: as above.
unsafe impl Sync for CuEvent {}

impl CuEvent {
    /// Creates an untimed event; a thread that waits for it sleeps.
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self, Code> {
        Self::with_flags(context, BLOCKING_UNTIMED)
    }

    /// Creates an event that records its time. No thread or stream waits for it.
    pub(crate) fn timed(context: &Arc<Context>) -> Result<Self, Code> {
        Self::with_flags(context, TIMED)
    }

    fn with_flags(context: &Arc<Context>, flags: u32) -> Result<Self, Code> {
        let mut raw: CUevent = std::ptr::null_mut();
        // SAFETY: the context is current on the thread that issues tasks.
        let answer = unsafe { (context.api().create_event)(&raw mut raw, flags) };
        Code::check("cuEventCreate", answer)?;
        let context = context.clone();
        Ok(Self { context, raw })
    }

    /// Returns `true` if the work before the event has completed. An event that was never recorded is complete.
    #[inline]
    pub(crate) fn is_complete(&self) -> Result<bool, Code> {
        // SAFETY: the event is alive.
        let answer = unsafe { (self.context.api().query_event)(self.raw) };
        Code::is_ready("cuEventQuery", answer)
    }

    /// Blocks until the work before the event has completed.
    pub(crate) fn synchronize(&self) -> Result<(), Code> {
        // SAFETY: the event is alive.
        let answer = unsafe { (self.context.api().synchronize_event)(self.raw) };
        Code::check("cuEventSynchronize", answer)
    }

    /// Returns the milliseconds from `earlier` to this event. Both are timed and have completed.
    pub(crate) fn ms_since(&self, earlier: &Self) -> Result<f32, Code> {
        let mut ms = 0.0;
        // SAFETY: both are alive, and the out pointer is valid.
        let answer = unsafe { (self.context.api().elapsed)(&raw mut ms, earlier.raw, self.raw) };
        Code::check("cuEventElapsedTime", answer).map(|()| ms)
    }
}

impl Drop for CuEvent {
    fn drop(&mut self) {
        self.context.destroy("cuEventDestroy", |api| {
            // SAFETY: created once, destroyed once; the driver keeps pending waits for the event.
            unsafe { (api.destroy_event)(self.raw) }
        });
    }
}

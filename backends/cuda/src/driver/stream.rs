//! Streams and events of the driver.

use std::sync::Arc;

use cudarc::driver::sys::{CUevent, CUstream};

use super::{Api, Code, Context};

/// The stream does not synchronize with the legacy default stream, which other code of the process may use.
const NON_BLOCKING: u32 = 1;
/// Waiting threads sleep (1). The event records no time (2), which makes it several times cheaper to record.
const BLOCKING_UNTIMED: u32 = 1 | 2;
/// The event records its time.
const TIMED: u32 = 0;

/// A stream of the driver: the order of one queue.
pub(crate) struct CuStream {
    context: Arc<Context>,
    pub(crate) raw: CUstream,
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
        unsafe {
            context
                .api()
                .create_stream(&raw mut raw, NON_BLOCKING, priority)
        }?;
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
        unsafe { context.api().stream_context(raw, &raw mut of) }?;
        Ok((of == context.raw).then(|| Self {
            context: context.clone(),
            raw,
            owned: false,
        }))
    }

    /// Records `event` at the end of the stream.
    #[inline]
    pub(crate) fn record(&self, event: &CuEvent) -> Result<(), Code> {
        // SAFETY: both are alive and belong to one context.
        unsafe { self.context.api().record(event.raw, self.raw) }
    }

    /// Makes later work of the stream wait for the event, on the GPU.
    #[inline]
    pub(crate) fn wait(&self, event: &CuEvent) -> Result<(), Code> {
        // SAFETY: both are alive and belong to one context; the flags must be 0.
        unsafe { self.context.api().stream_wait(self.raw, event.raw, 0) }
    }

    /// Whether work of the stream is captured, and not executed.
    pub(crate) fn is_capturing(&self) -> Result<bool, Code> {
        let mut status = 0;
        // SAFETY: the stream is alive, and the out pointer is valid.
        let asked = unsafe { self.context.api().is_capturing(self.raw, &raw mut status) };
        asked.map(|()| status != 0)
    }

    /// Blocks until all work of the stream has completed.
    pub(crate) fn synchronize(&self) -> Result<(), Code> {
        // SAFETY: the stream is alive.
        unsafe { self.context.api().synchronize_stream(self.raw) }
    }
}

impl Drop for CuStream {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        // SAFETY: created once, destroyed once. The driver lets the stream complete its work first.
        let destroy = |api: &Api| unsafe { api.destroy_stream(self.raw) };
        self.context.destroy(destroy);
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

    /// Creates an event that records its time. No thread waits for it.
    pub(crate) fn timed(context: &Arc<Context>) -> Result<Self, Code> {
        Self::with_flags(context, TIMED)
    }

    fn with_flags(context: &Arc<Context>, flags: u32) -> Result<Self, Code> {
        let mut raw: CUevent = std::ptr::null_mut();
        // SAFETY: the context is current on the thread that issues tasks.
        unsafe { context.api().create_event(&raw mut raw, flags) }?;
        let context = context.clone();
        Ok(Self { context, raw })
    }

    /// Returns `true` if the work before the event has completed. An event that was never recorded is complete.
    #[inline]
    pub(crate) fn is_complete(&self) -> Result<bool, Code> {
        // SAFETY: the event is alive.
        Code::is_ready(unsafe { self.context.api().query_event(self.raw) })
    }

    /// Blocks until the work before the event has completed.
    pub(crate) fn synchronize(&self) -> Result<(), Code> {
        // SAFETY: the event is alive.
        unsafe { self.context.api().synchronize_event(self.raw) }
    }

    /// Returns the milliseconds from `earlier` to this event. Both are timed and have completed.
    pub(crate) fn ms_since(&self, earlier: &Self) -> Result<f32, Code> {
        let mut ms = 0.0;
        // SAFETY: both are alive, and the out pointer is valid.
        unsafe {
            self.context
                .api()
                .elapsed(&raw mut ms, earlier.raw, self.raw)
        }
        .map(|()| ms)
    }
}

impl Drop for CuEvent {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; the driver keeps pending waits for the event.
        let destroy = |api: &Api| unsafe { api.destroy_event(self.raw) };
        self.context.destroy(destroy);
    }
}

//! Streams and events of the driver.

use std::sync::Arc;

use cudarc::driver::sys::{CUevent, CUstream};

use super::{Code, Context};

/// Does not wait for the legacy default stream, which others in this process may use.
const NON_BLOCKING: u32 = 1;
/// Who waits for the event sleeps (1), and nobody asks for its time (2), which makes it several times cheaper to record.
const BLOCKING_UNTIMED: u32 = 1 | 2;
/// It has a time.
const TIMED: u32 = 0;

/// A stream of the driver: our queue.
pub(crate) struct CuStream {
    context: Arc<Context>,
    raw: CUstream,
    /// It was made here, and is ended here.
    ours: bool,
}

// SAFETY: the driver takes a stream from any thread in whose context it is.
unsafe impl Send for CuStream {}
// SAFETY: as above.
unsafe impl Sync for CuStream {}

impl CuStream {
    /// A stream of this priority, as the driver counts.
    pub(crate) fn new(context: &Arc<Context>, priority: i32) -> Result<Self, Code> {
        let mut raw: CUstream = std::ptr::null_mut();
        // SAFETY: the context is current on the thread that opens.
        let answer = unsafe { (context.api().create_stream)(&raw mut raw, NON_BLOCKING, priority) };
        Code::check(answer)?;
        Ok(Self {
            context: context.clone(),
            raw,
            ours: true,
        })
    }

    /// Somebody else's stream; none, if it is of another context.
    ///
    /// # Safety
    /// It lives as long as the value.
    pub(crate) unsafe fn adopt(
        context: &Arc<Context>,
        raw: CUstream,
    ) -> Result<Option<Self>, Code> {
        let mut of = std::ptr::null_mut();
        // SAFETY: the caller's promise; the place for the answer is ours.
        Code::check(unsafe { (context.api().stream_context)(raw, &raw mut of) })?;
        Ok((of == context.raw()).then(|| Self {
            context: context.clone(),
            raw,
            ours: false,
        }))
    }

    #[inline]
    pub(crate) fn raw(&self) -> CUstream {
        self.raw
    }

    /// Remembers in `event` what the stream has been given so far.
    #[inline]
    pub(crate) fn record(&self, event: &CuEvent) -> Result<(), Code> {
        // SAFETY: both live and are of one context.
        Code::check(unsafe { (self.context.api().record)(event.raw, self.raw) })
    }

    /// What the stream is given from here on waits for the event, on the GPU.
    #[inline]
    pub(crate) fn wait(&self, event: &CuEvent) -> Result<(), Code> {
        // SAFETY: both live and are of one context; no flags are the only flags there are.
        Code::check(unsafe { (self.context.api().stream_wait)(self.raw, event.raw, 0) })
    }

    /// Has the stream write these 8 bytes, once it has done what it was given.
    pub(crate) fn write_value(&self, address: u64, value: u64) -> Result<(), Code> {
        let Some(write) = self.context.api().write_value else {
            return Err(Code::NOT_FOUND);
        };
        // SAFETY: whoever gives an address vouches for it; no flags: a fence of the whole system comes before.
        Code::check(unsafe { write(self.raw, address, value, 0) })
    }

    /// Has the stream done what it was given? An error tells that its context is gone.
    pub(crate) fn is_idle(&self) -> Result<bool, Code> {
        // SAFETY: the stream lives.
        match Code::check(unsafe { (self.context.api().query_stream)(self.raw) }) {
            Err(Code::NOT_READY) => Ok(false),
            idle => idle.map(|()| true),
        }
    }

    /// Waits until the stream has done what it was given. Blocks.
    pub(crate) fn synchronize(&self) -> Result<(), Code> {
        // SAFETY: the stream lives.
        Code::check(unsafe { (self.context.api().synchronize_stream)(self.raw) })
    }
}

impl Drop for CuStream {
    fn drop(&mut self) {
        if !self.ours {
            return;
        }
        self.context.end("cuStreamDestroy", |api| {
            // SAFETY: made once, ended once. The driver lets it finish what it was given.
            unsafe { (api.destroy_stream)(self.raw) }
        });
    }
}

/// An event that remembers when it passed. Nobody waits for it.
pub(crate) struct TimedEvent {
    context: Arc<Context>,
    raw: CUevent,
}

// SAFETY: the driver takes an event from any thread.
unsafe impl Send for TimedEvent {}
// SAFETY: as above.
unsafe impl Sync for TimedEvent {}

impl TimedEvent {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self, Code> {
        let raw = create_event(context, TIMED)?;
        let context = context.clone();
        Ok(Self { context, raw })
    }

    /// Remembers when the stream comes here.
    pub(crate) fn record(&self, stream: &CuStream) -> Result<(), Code> {
        // SAFETY: both live and are of one context.
        Code::check(unsafe { (self.context.api().record)(self.raw, stream.raw) })
    }

    /// Milliseconds from that one to this one. Both have passed.
    pub(crate) fn ms_since(&self, earlier: &Self) -> Result<f32, Code> {
        let mut ms = 0.0;
        // SAFETY: both live, the place for the answer is ours.
        let answer = unsafe { (self.context.api().elapsed)(&raw mut ms, earlier.raw, self.raw) };
        Code::check(answer).map(|()| ms)
    }
}

impl Drop for TimedEvent {
    fn drop(&mut self) {
        self.context.end("cuEventDestroy", |api| {
            // SAFETY: made once, ended once.
            unsafe { (api.destroy_event)(self.raw) }
        });
    }
}

fn create_event(context: &Arc<Context>, flags: u32) -> Result<CUevent, Code> {
    let mut raw: CUevent = std::ptr::null_mut();
    // SAFETY: the context is current on the thread that issues.
    let answer = unsafe { (context.api().create_event)(&raw mut raw, flags) };
    Code::check(answer).map(|()| raw)
}

/// An event of the driver: untimed, and who waits for it sleeps.
pub(crate) struct CuEvent {
    context: Arc<Context>,
    raw: CUevent,
}

// SAFETY: the driver takes an event from any thread.
unsafe impl Send for CuEvent {}
// SAFETY: as above.
unsafe impl Sync for CuEvent {}

impl CuEvent {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self, Code> {
        let raw = create_event(context, BLOCKING_UNTIMED)?;
        let context = context.clone();
        Ok(Self { context, raw })
    }

    /// Has what it remembers been done? An event that was never recorded has.
    #[inline]
    pub(crate) fn is_over(&self) -> Result<bool, Code> {
        // SAFETY: the event lives.
        match Code::check(unsafe { (self.context.api().query_event)(self.raw) }) {
            Err(Code::NOT_READY) => Ok(false),
            over => over.map(|()| true),
        }
    }

    /// Waits until what it remembers has been done. Blocks.
    pub(crate) fn synchronize(&self) -> Result<(), Code> {
        // SAFETY: the event lives.
        Code::check(unsafe { (self.context.api().synchronize_event)(self.raw) })
    }
}

impl Drop for CuEvent {
    fn drop(&mut self) {
        self.context.end("cuEventDestroy", |api| {
            // SAFETY: made once, ended once; the driver keeps what still waits for it.
            unsafe { (api.destroy_event)(self.raw) }
        });
    }
}

//! What a submitting call does with the interpreter's lock.
//!
//! ```text
//!  attempt on `nowait()`, attached ──Ok or another error──► return it
//!         │ Busy
//!         ▼
//!  detach, await room by `when_ready` for at most SLICE ──► attach, run signal handlers ──► again
//! ```
//! A stream made by `Stream.nowait` raises `Busy` instead of waiting.
//!
//! A caller keeps its place in the wait lists across slices, since it polls one future. An exception of a signal handler
//! drops the future, which leaves the lists: nothing was submitted then.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use millstream::{Error, Stream};
use pyo3::prelude::*;

use crate::errors::exception;
use crate::exchange::stall::StallWarning;
use crate::held::{DETACHED_COPY_BYTES, release_dropped};

/// How long a thread waits before it looks for signals. Ctrl-C takes effect within this time.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// A stream, and the same stream with calls that never block.
pub(crate) struct Submitter {
    stream: Stream,
    nowait: Stream,
    waits: bool,
}

impl Submitter {
    /// Returns a submitter that waits for room, or one that raises `Busy`.
    pub(crate) fn new(stream: Stream, waits: bool) -> Self {
        let nowait = stream.nowait();
        Self {
            stream,
            nowait,
            waits,
        }
    }

    /// Whether a call without room waits for it.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    /// Returns the stream, whose calls may block.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Submits: see the module.
    #[inline]
    pub(crate) fn submit<T: Send>(
        &self,
        py: Python<'_>,
        attempt: impl FnMut(&Stream) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        self.submit_bytes(py, 0, attempt)
    }

    /// As [`Submitter::submit`], for a call that copies this number of bytes: detached if they are many.
    #[inline]
    pub(crate) fn submit_bytes<T: Send>(
        &self,
        py: Python<'_>,
        bytes: usize,
        mut attempt: impl FnMut(&Stream) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        release_dropped(py);
        let attempted = match bytes > DETACHED_COPY_BYTES {
            true => py.detach(|| attempt(&self.nowait)),
            false => attempt(&self.nowait),
        };
        match attempted {
            Ok(value) => Ok(value),
            Err(Error::Busy { .. }) if self.waits => self.submit_when_ready(py, attempt),
            Err(error) => Err(exception(error)),
        }
    }

    #[cold]
    fn submit_when_ready<T: Send>(
        &self,
        py: Python<'_>,
        attempt: impl FnMut(&Stream) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let mut future = pin!(self.stream.when_ready(attempt));
        loop {
            if let Some(outcome) = py.detach(|| poll_for(future.as_mut(), SLICE)) {
                return outcome.map_err(exception);
            }
            py.check_signals()?;
        }
    }
}

/// Wakes a thread that polls a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a future on this thread until it is ready or the time is over.
fn poll_for<F: Future>(mut future: Pin<&mut F>, time: Duration) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let end = Instant::now() + time;
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        let now = Instant::now();
        if now >= end {
            return None;
        }
        thread::park_timeout(end - now);
    }
}

/// Waits for an answer, detached, and runs signal handlers meanwhile. If one raises, the answer is dropped.
pub(crate) fn wait_for<T: Send + 'static>(
    py: Python<'_>,
    mut pending: millstream::Pending<T>,
) -> PyResult<T> {
    release_dropped(py);
    let mut stalled = StallWarning::new();
    loop {
        match py.detach(|| pending.wait_timeout(SLICE)) {
            Err(Error::TimedOut { .. }) => {
                py.check_signals()?;
                stalled.look(py)?;
            }
            answer => return answer.map_err(exception),
        }
    }
}

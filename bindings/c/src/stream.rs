//! Streams: orders of tasks.

use std::time::{Duration, Instant};

use millstream::Stream;

use crate::client::ms_client;
use crate::handles::{destroy, get, give, objects};
use crate::pending::{self, ms_pending};
use crate::status::{Answer, Fault, exports};

/// An order of tasks: they take effect in the order in which they were added. Tasks of different streams overlap in time
/// unless they touch the same bytes, which orders them too, in the order of the calls. No thread owns a stream; any
/// thread may add tasks.
///
/// `ms_launch`, `ms_copy`, `ms_fill`, `ms_write`, `ms_read`, `ms_replay` and `ms_buffer_create` add tasks. They return as
/// soon as the task is accepted, and do not wait for the device; they block only while there is no room for the task,
/// and on a stream of `ms_stream_nowait` not even then.
pub struct ms_stream {
    pub(crate) stream: Stream,
    /// The same stream with calls that do not block: launches try it first, without a clone.
    pub(crate) nowait: Stream,
    pub(crate) blocks: bool,
}

impl ms_stream {
    pub(crate) fn new(stream: Stream, blocks: bool) -> Self {
        let nowait = stream.nowait();
        Self {
            stream,
            nowait,
            blocks,
        }
    }
}

objects!(ms_stream: 4);

/// Returns a clone of a stream: a call that waits may run callbacks, which may destroy the handle.
///
/// # Safety
/// As [`get`].
pub(crate) unsafe fn stream_of(handle: *const ms_stream) -> Answer<Stream> {
    // SAFETY: the caller's promise.
    unsafe { get(handle) }.map(|found| found.stream.clone())
}

exports! {
    /// Makes a stream. May block while the device's mailbox is full.
    ///
    /// Errors: `OUT_OF_MEMORY`, `CLOSED`, `LOST`, `FORKED`.
    fn ms_stream_create(client: *const ms_client, out: *mut *mut ms_stream) {
        give(out, || {
            let stream = get(client)?.0.clone().new_stream();
            if stream.id().is_none() {
                // It is not registered, and each of its calls returns the reason.
                stream.flush()?;
            }
            Ok(ms_stream::new(stream, true))
        })
    }

    /// Gives another handle of the same stream whose calls never block: without room they answer `MS_STATUS_BUSY`, and
    /// submit nothing. Never blocks.
    fn ms_stream_nowait(stream: *const ms_stream, out: *mut *mut ms_stream) {
        give(out, || Ok(ms_stream::new(get(stream)?.nowait.clone(), false)))
    }

    /// Gives another handle of the same stream with tasks that are withdrawn if they have not begun `timeout_ns` from
    /// now. What a withdrawn task would have written is poisoned, and reads of it answer `MS_STATUS_DEADLINE_PASSED`; a
    /// later deadline does not replace an earlier one. Never blocks.
    fn ms_stream_with_deadline(
        stream: *const ms_stream, timeout_ns: u64, out: *mut *mut ms_stream,
    ) {
        give(out, || {
            let stream = get(stream)?;
            let deadline = Instant::now().checked_add(Duration::from_nanos(timeout_ns));
            let beyond = || Fault::argument("the deadline is beyond the clock's range");
            let same = stream.stream.with_deadline(deadline.ok_or_else(beyond)?);
            Ok(ms_stream::new(same, stream.blocks))
        })
    }

    /// Submits the tasks that the stream holds back to batch them. A stream does that itself when the device is idle.
    fn ms_stream_flush(stream: *const ms_stream) {
        Ok(stream_of(stream)?.flush()?)
    }

    /// Gives a pending answer that arrives once all tasks added to the stream so far have completed. A task that failed
    /// is not reported here, but by reads of the data that it would have written.
    fn ms_sync(stream: *const ms_stream, out: *mut *mut ms_pending) {
        give(out, || pending::unit(stream_of(stream)?.sync()))
    }

    /// Destroys the handle of a stream. Never blocks: the tasks that were added still run. NULL is fine.
    fn ms_stream_destroy(stream: *mut ms_stream) {
        destroy(stream)
    }
}

//! Buffers, and the tasks that move bytes.

use std::ffi::c_void;

use millstream::Handle;

use crate::handles::{destroy, get, give, objects};
use crate::pending::{self, ms_pending};
use crate::sized::{bytes as bytes_of, check_memory};
use crate::status::{Answer, ensure, exports, write};
use crate::stream::{ms_stream, stream_of};

/// A range of bytes of device memory. The memory returns to the device once all its buffers are destroyed and all tasks
/// that use it have completed. Any thread may use it.
pub struct ms_buffer(pub(crate) Handle<u8>);

objects!(ms_buffer: 5);

/// Returns a clone of a buffer: a call that waits may run callbacks, which may destroy the handle.
///
/// # Safety
/// As [`get`].
pub(crate) unsafe fn buffer_of(handle: *const ms_buffer) -> Answer<Handle<u8>> {
    // SAFETY: the caller's promise.
    unsafe { get(handle) }.map(|found| found.0.clone())
}

/// Fills a buffer with a value of 1, 2, 4 or 8 bytes, by the method `fill` of a stream or a recorder.
macro_rules! fill_bytes {
    ($to:expr, $buffer:expr, $value:expr) => {
        match *$value {
            [a] => $to.fill($buffer, a)?,
            [a, b] => $to.fill(&$buffer.cast()?, u16::from_ne_bytes([a, b]))?,
            [a, b, c, d] => $to.fill(&$buffer.cast()?, u32::from_ne_bytes([a, b, c, d]))?,
            [a, b, c, d, e, f, g, h] => $to.fill(
                &$buffer.cast()?,
                u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            )?,
            ref other => {
                let text = format!("a value has 1, 2, 4 or 8 bytes, got {}", other.len());
                return Err(crate::status::Fault::argument(text));
            }
        }
    };
}
pub(crate) use fill_bytes;

exports! {
    /// Allocates `bytes` bytes with undefined contents. If the device has no memory, the failure arrives at what reads
    /// the buffer; a client's limit is an error of this call.
    ///
    /// Errors: `TOO_LARGE`, `OUT_OF_MEMORY`, `BUSY`, `CLOSED`, `LOST`.
    fn ms_buffer_create(stream: *const ms_stream, bytes: usize, out: *mut *mut ms_buffer) {
        give(out, || Ok(ms_buffer(stream_of(stream)?.empty(bytes)?)))
    }

    /// Allocates a buffer with a copy of `data`, which may be freed when this returns.
    ///
    /// Errors: as `ms_buffer_create`.
    fn ms_buffer_create_from(
        stream: *const ms_stream, data: *const c_void, bytes: usize, out: *mut *mut ms_buffer,
    ) {
        give(out, || Ok(ms_buffer(stream_of(stream)?.create(bytes_of(data, bytes)?)?)))
    }

    /// Gives a buffer of a part of a buffer: `bytes` bytes from byte `offset`. Both share memory. Never blocks.
    ///
    /// Errors: `INVALID_ARGUMENT` if the part does not lie in the buffer.
    fn ms_buffer_slice(
        buffer: *const ms_buffer, offset: usize, bytes: usize, out: *mut *mut ms_buffer,
    ) {
        let end = offset.saturating_add(bytes);
        give(out, || Ok(ms_buffer(get(buffer)?.0.slice(offset..end)?)))
    }

    /// Reports the size of a buffer in bytes. Never blocks.
    fn ms_buffer_get_bytes(buffer: *const ms_buffer, out: *mut usize) {
        write(out, get(buffer)?.0.len())
    }

    /// Destroys the handle of a buffer. Never blocks: tasks that use the memory still run. NULL is fine.
    fn ms_buffer_destroy(buffer: *mut ms_buffer) {
        destroy(buffer)
    }

    /// Overwrites a buffer with a copy of `data`, which has the buffer's size and may be freed when this returns.
    fn ms_write(
        stream: *const ms_stream, buffer: *const ms_buffer, data: *const c_void, bytes: usize,
    ) {
        Ok(stream_of(stream)?.write(&buffer_of(buffer)?, bytes_of(data, bytes)?)?)
    }

    /// Repeats `value`, of 1, 2, 4 or 8 bytes, over a buffer whose size is a multiple of that.
    fn ms_fill(
        stream: *const ms_stream, buffer: *const ms_buffer, value: *const c_void, bytes: usize,
    ) {
        let (stream, buffer) = (stream_of(stream)?, buffer_of(buffer)?);
        fill_bytes!(stream, &buffer, bytes_of(value, bytes)?);
        Ok(())
    }

    /// Copies a buffer to another of the same size, which does not overlap it.
    fn ms_copy(stream: *const ms_stream, from: *const ms_buffer, to: *const ms_buffer) {
        Ok(stream_of(stream)?.copy(&buffer_of(from)?, &buffer_of(to)?)?)
    }

    /// Requests the bytes of a buffer as of this point of the stream. `ms_pending_data` has them once the answer has
    /// arrived. The buffer may be destroyed meanwhile.
    fn ms_read(stream: *const ms_stream, buffer: *const ms_buffer, out: *mut *mut ms_pending) {
        give(out, || pending::bytes(stream_of(stream)?.read(&buffer_of(buffer)?)))
    }

    /// Reads a buffer into `data`, which has the buffer's size, as of this point of the stream. Blocks until the bytes
    /// have arrived; pumps a driven device meanwhile. After an error `data` is unchanged.
    ///
    /// Errors: the failure of the task that should have written the bytes; `WOULD_DEADLOCK` in a callback.
    fn ms_read_into(
        stream: *const ms_stream, buffer: *const ms_buffer, data: *mut c_void, bytes: usize,
    ) {
        check_memory(data, bytes)?;
        let (stream, buffer) = (stream_of(stream)?, buffer_of(buffer)?);
        let len = buffer.len();
        ensure!(len == bytes, "the buffer has {len} bytes, got memory of {bytes}");
        let read = stream.read(&buffer).wait()?;
        if bytes > 0 {
            // The caller's memory has `bytes` bytes, as many as were read; not NULL (checked above).
            read.as_ptr().copy_to_nonoverlapping(data.cast(), bytes);
        }
        Ok(())
    }
}

//! Buffers, and the tasks that move bytes.

use std::ffi::c_void;

use millstream::{Element, Handle, Stream};

use crate::handles::{Out, destroy, get, give, objects};
use crate::pending::{self, ms_pending};
use crate::sized::{bytes as bytes_of, check_memory};
use crate::status::{Answer, Fault, entry, ms_status, write};
use crate::stream::ms_stream;

/// A range of bytes of device memory. The memory returns to the device once all its buffers are destroyed and all tasks
/// that use it have completed. Any thread may use it.
pub struct ms_buffer(pub(crate) Handle<u8>);

objects!(ms_buffer: 5);

/// Allocates `bytes` bytes with undefined contents. If the device has no memory, the failure arrives at what reads the
/// buffer; a client's limit is an error of this call.
///
/// Errors: `TOO_LARGE`, `OUT_OF_MEMORY`, `BUSY`, `CLOSED`, `LOST`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_buffer_create(
    stream: *const ms_stream,
    bytes: usize,
    out: *mut *mut ms_buffer,
) -> ms_status {
    // SAFETY: the caller keeps the rules of the header.
    entry(|| unsafe {
        let (out, stream) = (Out::new(out)?, get(stream)?.stream.clone());
        let buffer = stream.empty::<u8>(bytes)?;
        give(out, ms_buffer(buffer))
    })
}

/// Allocates a buffer with a copy of `data`, which may be freed when this returns.
///
/// Errors: as `ms_buffer_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_buffer_create_from(
    stream: *const ms_stream,
    data: *const c_void,
    bytes: usize,
    out: *mut *mut ms_buffer,
) -> ms_status {
    // SAFETY: the caller keeps the rules of the header.
    entry(|| unsafe {
        let out = Out::new(out)?;
        let stream = get(stream)?.stream.clone();
        let data = bytes_of(data, bytes)?;
        let buffer = stream.create(data)?;
        give(out, ms_buffer(buffer))
    })
}

/// Gives a buffer of a part of a buffer: `bytes` bytes from byte `offset`. Both share memory. Never blocks.
///
/// Errors: `INVALID_ARGUMENT` if the part does not lie in the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_buffer_slice(
    buffer: *const ms_buffer,
    offset: usize,
    bytes: usize,
    out: *mut *mut ms_buffer,
) -> ms_status {
    // SAFETY: the caller keeps the rules of the header.
    entry(|| unsafe {
        let (out, buffer) = (Out::new(out)?, get(buffer)?);
        let part = buffer.0.slice(offset..offset.saturating_add(bytes))?;
        give(out, ms_buffer(part))
    })
}

/// Reports the size of a buffer in bytes. Never blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_buffer_get_bytes(
    buffer: *const ms_buffer,
    out: *mut usize,
) -> ms_status {
    // SAFETY: the caller keeps the rules of the header.
    entry(|| unsafe {
        let buffer = get(buffer)?;
        write(out, buffer.0.len())
    })
}

/// Destroys the handle of a buffer. Never blocks: tasks that use the memory still run. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_buffer_destroy(buffer: *mut ms_buffer) -> ms_status {
    entry(|| destroy(buffer))
}

/// Overwrites a buffer with a copy of `data`, which has the buffer's size and may be freed when this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_write(
    stream: *const ms_stream,
    buffer: *const ms_buffer,
    data: *const c_void,
    bytes: usize,
) -> ms_status {
    // SAFETY: the caller keeps the rules of the header.
    entry(|| unsafe {
        let stream = get(stream)?.stream.clone();
        let buffer = get(buffer)?.0.clone();
        let data = bytes_of(data, bytes)?;
        Ok(stream.write(&buffer, data)?)
    })
}

/// Repeats `value`, of 1, 2, 4 or 8 bytes, over a buffer whose size is a multiple of that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_fill(
    stream: *const ms_stream,
    buffer: *const ms_buffer,
    value: *const c_void,
    bytes: usize,
) -> ms_status {
    // SAFETY: the caller keeps the rules of the header.
    entry(|| unsafe {
        let stream = get(stream)?.stream.clone();
        let buffer = get(buffer)?.0.clone();
        let value = bytes_of(value, bytes)?;
        with_pattern(value, &buffer, Fill(&stream))
    })
}

/// A task with a value that repeats.
pub(crate) trait PatternTask {
    fn submit<T: Element>(self, buffer: &Handle<T>, value: T) -> Answer<()>;
}

struct Fill<'a>(&'a Stream);

impl PatternTask for Fill<'_> {
    fn submit<T: Element>(self, buffer: &Handle<T>, value: T) -> Answer<()> {
        Ok(self.0.fill(buffer, value)?)
    }
}

/// Submits a task with a value of 1, 2, 4 or 8 bytes.
pub(crate) fn with_pattern(
    value: &[u8],
    buffer: &Handle<u8>,
    task: impl PatternTask,
) -> Answer<()> {
    macro_rules! of_width {
        ($($element:ty),*) => {
            match value.len() {
                $(width if width == size_of::<$element>() => {
                    let mut bytes = [0; size_of::<$element>()];
                    bytes.copy_from_slice(value);
                    task.submit(&buffer.cast::<$element>()?, <$element>::from_ne_bytes(bytes))
                })*
                width => Err(Fault::argument(format!("a value has 1, 2, 4 or 8 bytes, got {width}"))),
            }
        };
    }
    of_width!(u8, u16, u32, u64)
}

/// Copies a buffer to another of the same size, which does not overlap it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_copy(
    stream: *const ms_stream,
    from: *const ms_buffer,
    to: *const ms_buffer,
) -> ms_status {
    // SAFETY: the caller keeps the rules of the header.
    entry(|| unsafe {
        let stream = get(stream)?.stream.clone();
        let from = get(from)?.0.clone();
        let to = get(to)?.0.clone();
        Ok(stream.copy(&from, &to)?)
    })
}

/// Requests the bytes of a buffer as of this point of the stream. `ms_pending_data` has them once the answer has
/// arrived. The buffer may be destroyed meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_read(
    stream: *const ms_stream,
    buffer: *const ms_buffer,
    out: *mut *mut ms_pending,
) -> ms_status {
    // SAFETY: the caller keeps the rules of the header.
    entry(|| unsafe {
        let out = Out::new(out)?;
        let stream = get(stream)?.stream.clone();
        let buffer = get(buffer)?.0.clone();
        give(out, pending::bytes(stream.read(&buffer))?)
    })
}

/// Reads a buffer into `data`, which has the buffer's size, as of this point of the stream. Blocks until the bytes have
/// arrived; pumps a driven device meanwhile. After an error `data` is unchanged.
///
/// Errors: the failure of the task that should have written the bytes; `WOULD_DEADLOCK` in a callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_read_into(
    stream: *const ms_stream,
    buffer: *const ms_buffer,
    data: *mut c_void,
    bytes: usize,
) -> ms_status {
    // SAFETY: the caller keeps the rules of the header.
    entry(|| unsafe {
        check_memory(data, bytes)?;
        let (stream, buffer) = (get(stream)?.stream.clone(), get(buffer)?.0.clone());
        if buffer.len() != bytes {
            let text = format!(
                "the buffer has {} bytes, got memory of {bytes}",
                buffer.len()
            );
            return Err(Fault::argument(text));
        }
        let read = stream.read(&buffer).wait()?;
        if bytes > 0 {
            // SAFETY: the caller's memory has `bytes` bytes, as many as were read; not NULL (checked above).
            read.as_ptr().copy_to_nonoverlapping(data.cast(), bytes);
        }
        Ok(())
    })
}

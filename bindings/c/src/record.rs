//! Recorders: tasks that are checked once, to be replayed as one task.

use std::ffi::c_void;

use millstream::{CubeCount, Element, Handle, Metadata, Recorder};

use crate::argument::ms_argument;
use crate::buffer::{PatternTask, ms_buffer, with_pattern};
use crate::exclusive::Exclusive;
use crate::handles::{Out, destroy, get, give, objects};
use crate::kernel::ms_kernel;
use crate::launch::{Checked, ms_cubes};
use crate::metadata::{metadata_of, ms_tensor};
use crate::replay::{Parameter, ms_recording};
use crate::sized::bytes as bytes_of;
use crate::status::{Answer, Fault, entry, ms_status, write};
use crate::stream::ms_stream;
use crate::types::known_dtype;

/// Records tasks instead of running them. Any thread may use it, one at a time: a call while another call is inside, on
/// another thread or further up on this one, answers `MS_STATUS_BUSY`. A callback may destroy it, also while a call with
/// it waits for a driven device.
pub struct ms_recorder(Exclusive<Recorded>);

objects!(ms_recorder: 8);

struct Recorded {
    /// `None` once it is finished.
    recorder: Option<Recorder<'static>>,
    parameters: Vec<Parameter>,
}

/// Begins a recording. Nothing runs before `ms_replay`. Never blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_recorder_create(
    stream: *const ms_stream,
    out: *mut *mut ms_recorder,
) -> ms_status {
    // SAFETY: the caller keeps the rules of the header.
    entry(|| unsafe {
        let (out, stream) = (Out::new(out)?, get(stream)?.stream.clone());
        let recorded = Recorded {
            recorder: Some(stream.into_recorder()),
            parameters: Vec::new(),
        };
        give(out, ms_recorder(Exclusive::new(recorded)))
    })
}

/// Calls `record` with what was recorded, unless another call is inside.
///
/// # Safety
/// The caller keeps the handle until the lookup.
unsafe fn with_recorded<R>(
    recorder: *const ms_recorder,
    record: impl FnOnce(&mut Recorded) -> Answer<R>,
) -> Answer<R> {
    // SAFETY: the caller's promise.
    let recorded = unsafe { get(recorder)? }.0.clone();
    recorded.with("another call uses this recorder", record)
}

/// Calls `record` with a recorder that is not finished.
///
/// # Safety
/// As [`with_recorded`].
unsafe fn with_recorder<R>(
    recorder: *const ms_recorder,
    record: impl FnOnce(&mut Recorder<'static>, &mut Vec<Parameter>) -> Answer<R>,
) -> Answer<R> {
    let record = |recorded: &mut Recorded| match &mut recorded.recorder {
        Some(recorder) => record(recorder, &mut recorded.parameters),
        None => Err(finished()),
    };
    // SAFETY: the caller's promise.
    unsafe { with_recorded(recorder, record) }
}

fn finished() -> Fault {
    Fault::new(
        ms_status::Taken,
        "the recorder was finished; create another one",
    )
}

/// Gives a parameter: a buffer without memory, for which each replay passes a buffer of at least `bytes` bytes
/// (`ms_rebind`). Only recorded tasks may use it. May block while the device's mailbox is full.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_recorder_parameter(
    recorder: *const ms_recorder,
    bytes: usize,
    out: *mut *mut ms_buffer,
) -> ms_status {
    // SAFETY: the caller keeps the rules of the header.
    entry(|| unsafe {
        let out = Out::new(out)?;
        let parameter = with_recorder(recorder, |to, _| Ok(to.parameter::<u8>(bytes)?))?;
        give(out, ms_buffer(parameter))
    })
}

/// Gives the number of a new scalar parameter of an `ms_type`, whose value each replay passes (`ms_rescalar`). Launches
/// take it as an argument of kind `MS_PARAMETER` with the number as `u64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_recorder_scalar(
    recorder: *const ms_recorder,
    dtype: u32,
    out: *mut u64,
) -> ms_status {
    // SAFETY: the caller keeps the rules of the header.
    entry(|| unsafe {
        let add = |to: &mut Recorder<'static>, parameters: &mut Vec<Parameter>| {
            let (dtype, scalar) = (known_dtype(dtype)?, to.scalar());
            parameters.push(Parameter { dtype, scalar });
            Ok(parameters.len() as u64 - 1)
        };
        let number = with_recorder(recorder, add)?;
        write(out, number)
    })
}

/// Records a launch, as `ms_launch`. A scalar may be a parameter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_recorder_launch(
    recorder: *const ms_recorder,
    kernel: *const ms_kernel,
    cubes: ms_cubes,
    arguments: *const ms_argument,
    count: usize,
) -> ms_status {
    // SAFETY: the caller passes valid pointers, or NULL, and keeps the handles.
    entry(|| unsafe { launch(recorder, kernel, cubes, (arguments, count), None) })
}

/// Records a launch, as `ms_launch_with_metadata`. A scalar may be a parameter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_recorder_launch_with_metadata(
    recorder: *const ms_recorder,
    kernel: *const ms_kernel,
    cubes: ms_cubes,
    arguments: *const ms_argument,
    count: usize,
    tensors: *const ms_tensor,
    tensor_count: usize,
) -> ms_status {
    // SAFETY: the caller passes valid pointers, or NULL, and keeps the handles.
    entry(|| unsafe {
        let metadata = metadata_of(tensors, tensor_count)?;
        launch(recorder, kernel, cubes, (arguments, count), Some(metadata))
    })
}

/// # Safety
/// `arguments` is NULL or points to `count` arguments, whose handles the caller keeps, and the other handles.
unsafe fn launch(
    recorder: *const ms_recorder,
    kernel: *const ms_kernel,
    cubes: ms_cubes,
    (arguments, count): (*const ms_argument, usize),
    metadata: Option<Metadata>,
) -> Answer<()> {
    // SAFETY: the caller's promise.
    let kernel = unsafe { get(kernel)? };
    let cubes = CubeCount::Static(cubes.x, cubes.y, cubes.z);
    let record = |to: &mut Recorder<'static>, parameters: &mut Vec<Parameter>| {
        // SAFETY: as above.
        let arguments = unsafe { Checked::read(kernel, arguments, count, parameters)? };
        to.launch_with(&kernel.handle, cubes, |to| {
            arguments.write(to, metadata.as_ref())
        })?;
        Ok(())
    };
    // SAFETY: as above.
    unsafe { with_recorder(recorder, record) }
}

/// Records a copy, as `ms_copy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_recorder_copy(
    recorder: *const ms_recorder,
    from: *const ms_buffer,
    to: *const ms_buffer,
) -> ms_status {
    // SAFETY: the caller keeps the rules of the header.
    entry(|| unsafe {
        let (source, target) = (&get(from)?.0, &get(to)?.0);
        with_recorder(recorder, |to, _| Ok(to.copy(source, target)?))
    })
}

/// Records a fill, as `ms_fill`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_recorder_fill(
    recorder: *const ms_recorder,
    buffer: *const ms_buffer,
    value: *const c_void,
    bytes: usize,
) -> ms_status {
    // SAFETY: the caller keeps the rules of the header.
    entry(|| unsafe {
        let (buffer, value) = (&get(buffer)?.0, bytes_of(value, bytes)?);
        with_recorder(recorder, |to, _| {
            with_pattern(value, buffer, RecordFill(to))
        })
    })
}

struct RecordFill<'a>(&'a mut Recorder<'static>);

impl PatternTask for RecordFill<'_> {
    fn submit<T: Element>(self, buffer: &Handle<T>, value: T) -> Answer<()> {
        Ok(self.0.fill(buffer, value)?)
    }
}

/// Makes a recording of what was recorded. The recorder must still be destroyed; it records no more. May block while the
/// device's mailbox is full.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_recorder_finish(
    recorder: *const ms_recorder,
    out: *mut *mut ms_recording,
) -> ms_status {
    // SAFETY: the caller keeps the rules of the header.
    entry(|| unsafe {
        let out = Out::new(out)?;
        let take = |recorded: &mut Recorded| {
            let tasks = recorded.recorder.take().ok_or_else(finished)?;
            Ok((tasks, std::mem::take(&mut recorded.parameters)))
        };
        // Taken out, so that nothing is locked while a driven device runs callbacks.
        let (tasks, parameters) = with_recorded(recorder, take)?;
        let recording = ms_recording {
            recording: tasks.finish()?,
            parameters,
        };
        give(out, recording)
    })
}

/// Destroys the handle of a recorder. What it recorded and did not finish is forgotten. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_recorder_destroy(recorder: *mut ms_recorder) -> ms_status {
    entry(|| destroy(recorder))
}

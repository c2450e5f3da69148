//! Recorders: tasks that are checked once, to be replayed as one task.

use std::ffi::c_void;
use std::sync::Arc;

use millstream::{
    Access, CubeCount, Element, Handle, KernelHandle, LaunchArgs, Metadata, Recorder, Stream, bind,
    kernel::BindingSpec,
};

use crate::argument::{MS_PARAMETER, ms_argument, ms_value};
use crate::buffer::{PatternTask, ms_buffer, with_pattern};
use crate::exclusive::Exclusive;
use crate::handles::{Out, destroy, get, give, objects};
use crate::kernel::ms_kernel;
use crate::launch::{ms_cubes, read_arguments, wrong_kind, wrong_type};
use crate::metadata::{metadata_of, ms_tensor};
use crate::replay::{AnyScalar, ms_recording, scalar_of, value_of};
use crate::sized::bytes as bytes_of;
use crate::status::{Answer, Fault, entry, ms_status, write};
use crate::stream::ms_stream;
use crate::types::{ForType, ScalarElement, access_of, dtype_of, known_dtype, with_dtype};

/// Records tasks instead of running them. Any thread may use it, one at a time: a call while another call is inside, on
/// another thread or further up on this one, answers `MS_STATUS_BUSY`. A callback may destroy it, also while a call with
/// it waits for a driven device.
pub struct ms_recorder(Exclusive<Recorded>);

objects!(ms_recorder: 8);

struct Recorded {
    /// `None` once it is finished. Declared, and so dropped, before the stream that it borrows.
    recorder: Option<Recorder<'static>>,
    scalars: Vec<Box<dyn AnyScalar>>,
    stream: Arc<Stream>,
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
        let stream = Arc::new(stream);
        // SAFETY: `Recorded` keeps a reference to the stream, and drops the recorder before it.
        let borrowed: &'static Stream = &*Arc::as_ptr(&stream);
        let recorded = Recorded {
            recorder: Some(borrowed.recorder()),
            scalars: Vec::new(),
            stream,
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
    record: impl FnOnce(&mut Recorder<'static>, &mut Vec<Box<dyn AnyScalar>>) -> Answer<R>,
) -> Answer<R> {
    let record = |recorded: &mut Recorded| match &mut recorded.recorder {
        Some(recorder) => record(recorder, &mut recorded.scalars),
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
        let add = |to: &mut Recorder<'static>, scalars: &mut Vec<Box<dyn AnyScalar>>| {
            scalars.push(with_dtype(known_dtype(dtype)?, MakeScalar(to))?);
            Ok(scalars.len() as u64 - 1)
        };
        let number = with_recorder(recorder, add)?;
        write(out, number)
    })
}

struct MakeScalar<'a>(&'a mut Recorder<'static>);

impl ForType for MakeScalar<'_> {
    type Output = Box<dyn AnyScalar>;

    fn run<T: ScalarElement>(self) -> Answer<Box<dyn AnyScalar>> {
        Ok(Box::new(self.0.scalar::<T>()))
    }
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
    // SAFETY: as above.
    let given = unsafe { read_arguments(kernel, arguments, count)? };
    let cubes = CubeCount::Static(cubes.x, cubes.y, cubes.z);
    let record = |to: &mut Recorder<'static>, scalars: &mut Vec<Box<dyn AnyScalar>>| {
        // SAFETY: as above.
        let bindings = unsafe { bindings_of(&kernel.handle, &given)? };
        let mut arguments = arguments_of(&kernel.handle, &bindings, &given, scalars)?;
        if let Some(metadata) = metadata {
            arguments = arguments.metadata(metadata);
        }
        Ok(to.launch(&kernel.handle, &cubes, arguments)?)
    };
    // SAFETY: as above.
    unsafe { with_recorder(recorder, record) }
}

/// A buffer with the element type that a kernel declares.
trait AnyHandle {
    fn push<'a>(&'a self, access: Access, arguments: LaunchArgs<'a>) -> LaunchArgs<'a>;
}

impl<T: Element> AnyHandle for Handle<T> {
    fn push<'a>(&'a self, access: Access, arguments: LaunchArgs<'a>) -> LaunchArgs<'a> {
        arguments.arg(bind(self, access))
    }
}

struct Cast<'a>(&'a Handle<u8>);

impl ForType for Cast<'_> {
    type Output = Box<dyn AnyHandle>;

    fn run<T: ScalarElement>(self) -> Answer<Box<dyn AnyHandle>> {
        Ok(Box::new(self.0.cast::<T>()?))
    }
}

/// Returns the buffers of a launch, with the types that the kernel declares.
///
/// # Safety
/// The caller keeps the handles in the arguments.
unsafe fn bindings_of(
    kernel: &KernelHandle,
    given: &[ms_argument],
) -> Answer<Vec<(Box<dyn AnyHandle>, Access)>> {
    let bindings = kernel.kernel().signature().bindings();
    let bind = |(index, (argument, spec)): (usize, (&ms_argument, &BindingSpec))| {
        let access = access_of(argument.kind);
        let access = access.map_err(|_| wrong_kind(kernel, index, argument.kind))?;
        // SAFETY: the kind says that the value is a handle, and any bits may be looked up.
        let buffer = unsafe { get::<ms_buffer>(argument.value.buffer)? };
        Ok((with_dtype(spec.dtype, Cast(&buffer.0))?, access))
    };
    given.iter().zip(bindings).enumerate().map(bind).collect()
}

fn arguments_of<'a>(
    kernel: &KernelHandle,
    bindings: &'a [(Box<dyn AnyHandle>, Access)],
    given: &[ms_argument],
    scalars: &'a [Box<dyn AnyScalar>],
) -> Answer<LaunchArgs<'a>> {
    let signature = kernel.kernel().signature();
    let mut arguments = LaunchArgs::new();
    for (handle, access) in bindings {
        arguments = handle.push(*access, arguments);
    }
    for (argument, spec) in given[bindings.len()..].iter().zip(signature.scalars()) {
        if argument.kind == MS_PARAMETER {
            // SAFETY: the kind says that the value is a number.
            let scalar = scalar_of(scalars, unsafe { argument.value.u64 })?;
            arguments = scalar.push(arguments);
            continue;
        }
        if dtype_of(argument.kind) != Some(spec.dtype) {
            return Err(wrong_type(kernel, &spec.name, spec.dtype, argument.kind));
        }
        arguments = with_dtype(spec.dtype, PushScalar(arguments, &argument.value))?;
    }
    Ok(arguments)
}

struct PushScalar<'a, 'b>(LaunchArgs<'a>, &'b ms_value);

impl<'a> ForType for PushScalar<'a, '_> {
    type Output = LaunchArgs<'a>;

    fn run<T: ScalarElement>(self) -> Answer<LaunchArgs<'a>> {
        Ok(self.0.arg(value_of::<T>(self.1)))
    }
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
            let scalars = std::mem::take(&mut recorded.scalars);
            Ok((recorded.stream.clone(), tasks, scalars))
        };
        // Taken out, so that nothing is locked while a driven device runs callbacks. The stream is kept for the
        // recorder, which borrows it: a callback may destroy the handle.
        let (_stream, tasks, scalars) = with_recorded(recorder, take)?;
        let recording = ms_recording {
            recording: tasks.finish()?,
            scalars,
        };
        give(out, recording)
    })
}

/// Destroys the handle of a recorder. What it recorded and did not finish is forgotten. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_recorder_destroy(recorder: *mut ms_recorder) -> ms_status {
    entry(|| destroy(recorder))
}

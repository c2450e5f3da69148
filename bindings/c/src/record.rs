//! Recorders: tasks that are checked once, to be replayed as one task.

use std::ffi::c_void;

use millstream::{CubeCount, Metadata, Recorder};

use crate::argument::ms_argument;
use crate::buffer::{fill_bytes, ms_buffer};
use crate::exclusive::Exclusive;
use crate::handles::{destroy, get, give, objects};
use crate::kernel::ms_kernel;
use crate::launch::{Checked, ms_cubes};
use crate::metadata::{metadata_of, ms_tensor};
use crate::replay::{Parameter, ms_recording};
use crate::sized::bytes as bytes_of;
use crate::status::{Answer, Fault, exports, ms_status, write};
use crate::stream::{ms_stream, stream_of};
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

impl Recorded {
    /// Returns the recorder, if it is not finished.
    fn open(&mut self) -> Answer<(&mut Recorder<'static>, &mut Vec<Parameter>)> {
        let recorder = self.recorder.as_mut().ok_or_else(finished)?;
        Ok((recorder, &mut self.parameters))
    }
}

fn finished() -> Fault {
    let text = "the recorder was finished; create another one";
    Fault::new(ms_status::Taken, text)
}

/// Records a launch.
///
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
    let (recorder, kernel) = unsafe { (get(recorder)?.0.clone(), get(kernel)?) };
    let cubes = CubeCount::Static(cubes.x, cubes.y, cubes.z);
    recorder.with(|recorded| {
        let (recorder, parameters) = recorded.open()?;
        // SAFETY: as above.
        let arguments = unsafe { Checked::read(kernel, arguments, count, parameters)? };
        recorder.launch_with(&kernel.handle, cubes, |to| {
            arguments.write(to, metadata.as_ref())
        })?;
        Ok(())
    })
}

exports! {
    /// Begins a recording. Nothing runs before `ms_replay`. Never blocks.
    fn ms_recorder_create(stream: *const ms_stream, out: *mut *mut ms_recorder) {
        give(out, || {
            let recorder = Some(stream_of(stream)?.into_recorder());
            let recorded = Recorded { recorder, parameters: Vec::new() };
            Ok(ms_recorder(Exclusive::new(recorded, "another call uses this recorder")))
        })
    }

    /// Gives a parameter: a buffer without memory, for which each replay passes a buffer of at least `bytes` bytes
    /// (`ms_rebind`). Only recorded tasks may use it. May block while the device's mailbox is full.
    fn ms_recorder_parameter(recorder: *const ms_recorder, bytes: usize, out: *mut *mut ms_buffer) {
        give(out, || {
            let recorder = get(recorder)?.0.clone();
            recorder.with(|recorded| Ok(ms_buffer(recorded.open()?.0.parameter(bytes)?)))
        })
    }

    /// Gives the number of a new scalar parameter of an `ms_type`, whose value each replay passes (`ms_rescalar`).
    /// Launches take it as an argument of kind `MS_PARAMETER` with the number as `u64`.
    fn ms_recorder_scalar(recorder: *const ms_recorder, dtype: u32, out: *mut u64) {
        let number = get(recorder)?.0.clone().with(|recorded| {
            let (recorder, parameters) = recorded.open()?;
            let (dtype, scalar) = (known_dtype(dtype)?, recorder.scalar());
            parameters.push(Parameter { dtype, scalar });
            Ok(parameters.len() as u64 - 1)
        })?;
        write(out, number)
    }

    /// Records a launch, as `ms_launch`. A scalar may be a parameter.
    fn ms_recorder_launch(
        recorder: *const ms_recorder, kernel: *const ms_kernel, cubes: ms_cubes,
        arguments: *const ms_argument, count: usize,
    ) {
        launch(recorder, kernel, cubes, (arguments, count), None)
    }

    /// Records a launch, as `ms_launch_with_metadata`. A scalar may be a parameter.
    fn ms_recorder_launch_with_metadata(
        recorder: *const ms_recorder, kernel: *const ms_kernel, cubes: ms_cubes,
        arguments: *const ms_argument, count: usize, tensors: *const ms_tensor, tensor_count: usize,
    ) {
        let metadata = metadata_of(tensors, tensor_count)?;
        launch(recorder, kernel, cubes, (arguments, count), Some(metadata))
    }

    /// Records a copy, as `ms_copy`.
    fn ms_recorder_copy(
        recorder: *const ms_recorder, from: *const ms_buffer, to: *const ms_buffer,
    ) {
        let (source, target) = (&get(from)?.0, &get(to)?.0);
        let recorder = get(recorder)?.0.clone();
        recorder.with(|recorded| Ok(recorded.open()?.0.copy(source, target)?))
    }

    /// Records a fill, as `ms_fill`.
    fn ms_recorder_fill(
        recorder: *const ms_recorder, buffer: *const ms_buffer, value: *const c_void, bytes: usize,
    ) {
        let (buffer, value) = (&get(buffer)?.0, bytes_of(value, bytes)?);
        let recorder = get(recorder)?.0.clone();
        recorder.with(|recorded| {
            fill_bytes!(recorded.open()?.0, buffer, value);
            Ok(())
        })
    }

    /// Makes a recording of what was recorded. The recorder must still be destroyed; it records no more. May block
    /// while the device's mailbox is full.
    fn ms_recorder_finish(recorder: *const ms_recorder, out: *mut *mut ms_recording) {
        give(out, || {
            // Taken out, so that nothing is locked while a driven device runs callbacks.
            let (tasks, parameters) = get(recorder)?.0.clone().with(|recorded| {
                let tasks = recorded.recorder.take().ok_or_else(finished)?;
                Ok((tasks, std::mem::take(&mut recorded.parameters)))
            })?;
            Ok(ms_recording { recording: tasks.finish()?, parameters })
        })
    }

    /// Destroys the handle of a recorder. What it recorded and did not finish is forgotten. NULL is fine.
    fn ms_recorder_destroy(recorder: *mut ms_recorder) {
        destroy(recorder)
    }
}

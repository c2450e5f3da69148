//! Recordings, and their replays.

use millstream::{DType, Handle, Recording, ReplayArgs, ScalarParameter};
use smallvec::SmallVec;

use crate::argument::{bits_of, ms_value};
use crate::buffer::{buffer_of, ms_buffer};
use crate::handles::{destroy, get, objects};
use crate::sized::{read_array, sized};
use crate::status::{Answer, Fault, ensure, exports};
use crate::stream::{ms_stream, stream_of};
use crate::types::dtype_of;

/// Tasks that were checked once. Any thread may replay it, on any stream of its device.
pub struct ms_recording {
    pub(crate) recording: Recording,
    pub(crate) parameters: Vec<Parameter>,
}

objects!(ms_recording: 9);

/// A buffer in place of a parameter of a recording.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_rebind {
    /// `sizeof(ms_rebind)`.
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// The parameter: a buffer of `ms_recorder_parameter`, or any buffer that a recorded task uses.
    pub parameter: *const ms_buffer,
    /// The buffer that the replay uses instead.
    pub buffer: *const ms_buffer,
}

/// The value of a scalar parameter of a recording.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_rescalar {
    /// `sizeof(ms_rescalar)`.
    pub size: u32,
    /// An `ms_type`: the type that the parameter was made with.
    pub dtype: u32,
    /// The number that `ms_recorder_scalar` gave.
    pub parameter: u64,
    /// The value.
    pub value: ms_value,
}

sized!(ms_rebind: 24, ms_rescalar: 24);

/// A scalar parameter, as bits, and its type.
pub(crate) struct Parameter {
    pub(crate) dtype: DType,
    pub(crate) scalar: ScalarParameter<u64>,
}

pub(crate) fn parameter_of(parameters: &[Parameter], number: u64) -> Answer<&Parameter> {
    let missing = || {
        let made = parameters.len();
        Fault::argument(format!(
            "scalar parameter {number} does not exist, {made} were made; only a launch that is recorded takes one"
        ))
    };
    // `usize` has 64 bits: see `lib.rs`.
    parameters.get(number as usize).ok_or_else(missing)
}

exports! {
    /// Runs a recording as one task of the stream, with buffers in place of parameters and values of scalar parameters,
    /// in any order. Buffers that are not parameters are those of the recording.
    ///
    /// Errors: `INVALID_ARGUMENT` if a parameter is missing, given twice, or does not fit; `BUSY`, `CLOSED`, `LOST`.
    fn ms_replay(
        stream: *const ms_stream, recording: *const ms_recording, rebinds: *const ms_rebind,
        rebind_count: usize, scalars: *const ms_rescalar, scalar_count: usize,
    ) {
        // Clones, since a replay that blocks may run callbacks, which may destroy handles.
        let (stream, recording) = (stream_of(stream)?, get(recording)?);
        let tasks = recording.recording.clone();
        let mut buffers: SmallVec<[[Handle<u8>; 2]; 4]> = SmallVec::new();
        for rebind in &read_array(rebinds, rebind_count)? {
            buffers.push([buffer_of(rebind.parameter)?, buffer_of(rebind.buffer)?]);
        }
        let mut replay = ReplayArgs::new(&tasks);
        for [parameter, buffer] in &buffers {
            replay = replay.bind(parameter, buffer);
        }
        for ms_rescalar { dtype: given, parameter, value, .. } in &read_array(scalars, scalar_count)? {
            let Parameter { dtype, scalar } = parameter_of(&recording.parameters, *parameter)?;
            let given = dtype_of(*given);
            ensure!(
                given == Some(*dtype),
                "scalar parameter {parameter} is of type {dtype}, got {}",
                given.map_or("none".to_owned(), |given| given.to_string())
            );
            replay = replay.set(scalar, bits_of(value, *dtype));
        }
        Ok(replay.replay(&stream)?)
    }

    /// Destroys the handle of a recording. Never blocks: replays that were added still run. NULL is fine.
    fn ms_recording_destroy(recording: *mut ms_recording) {
        destroy(recording)
    }
}

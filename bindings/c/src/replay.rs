//! Recordings, and their replays.

use millstream::{DType, Element, Handle, LaunchArgs, Recording, ReplayArgs, ScalarParameter};
use smallvec::SmallVec;

use crate::argument::ms_value;
use crate::buffer::ms_buffer;
use crate::handles::{destroy, get, objects};
use crate::sized::{read_array, sized};
use crate::status::{Answer, Fault, entry, ms_status};
use crate::stream::ms_stream;
use crate::types::{ScalarElement, dtype_of};

/// Tasks that were checked once. Any thread may replay it, on any stream of its device.
pub struct ms_recording {
    pub(crate) recording: Recording,
    pub(crate) scalars: Vec<Box<dyn AnyScalar>>,
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

/// A scalar parameter of a type that is known at run time.
pub(crate) trait AnyScalar: Send + Sync {
    fn dtype(&self) -> DType;
    fn push<'a>(&'a self, arguments: LaunchArgs<'a>) -> LaunchArgs<'a>;
    fn set<'a>(&self, replay: ReplayArgs<'a>, value: &ms_value) -> ReplayArgs<'a>;
}

impl<T: ScalarElement> AnyScalar for ScalarParameter<T> {
    fn dtype(&self) -> DType {
        T::DTYPE
    }

    fn push<'a>(&'a self, arguments: LaunchArgs<'a>) -> LaunchArgs<'a> {
        arguments.arg(self)
    }

    fn set<'a>(&self, replay: ReplayArgs<'a>, value: &ms_value) -> ReplayArgs<'a> {
        replay.set(self, value_of::<T>(value))
    }
}

pub(crate) fn value_of<T: Element>(value: &ms_value) -> T {
    // SAFETY: a scalar has at most 8 bytes, the size of the union; the caller's kind names the field; every bit pattern
    // is a `T`.
    unsafe { std::ptr::from_ref(value).cast::<T>().read_unaligned() }
}

pub(crate) fn scalar_of(scalars: &[Box<dyn AnyScalar>], number: u64) -> Answer<&dyn AnyScalar> {
    let scalar = usize::try_from(number)
        .ok()
        .and_then(|index| scalars.get(index));
    scalar.map(|scalar| &**scalar).ok_or_else(|| {
        let made = scalars.len();
        Fault::argument(format!(
            "scalar parameter {number} does not exist, {made} were made"
        ))
    })
}

/// Runs a recording as one task of the stream, with buffers in place of parameters and values of scalar parameters, in
/// any order. Buffers that are not parameters are those of the recording.
///
/// Errors: `INVALID_ARGUMENT` if a parameter is missing, given twice, or does not fit; `BUSY`, `CLOSED`, `LOST`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_replay(
    stream: *const ms_stream,
    recording: *const ms_recording,
    rebinds: *const ms_rebind,
    rebind_count: usize,
    scalars: *const ms_rescalar,
    scalar_count: usize,
) -> ms_status {
    // SAFETY: the caller keeps the rules of the header.
    entry(|| unsafe {
        let stream = get(stream)?;
        let recording = get(recording)?;
        let rebinds = read_array(rebinds, rebind_count)?;
        let scalars = read_array(scalars, scalar_count)?;
        let mut buffers: SmallVec<[[Handle<u8>; 2]; 4]> = SmallVec::new();
        for rebind in &rebinds {
            let (parameter, buffer) = (get(rebind.parameter)?, get(rebind.buffer)?);
            buffers.push([parameter.0.clone(), buffer.0.clone()]);
        }
        // Clones, since a replay that blocks may run callbacks, which may destroy handles.
        let (stream, tasks) = (stream.stream.clone(), recording.recording.clone());
        let mut replay = ReplayArgs::new(&tasks);
        for [parameter, buffer] in &buffers {
            replay = replay.bind(parameter, buffer);
        }
        for scalar in &scalars {
            let known = scalar_of(&recording.scalars, scalar.parameter)?;
            if dtype_of(scalar.dtype) != Some(known.dtype()) {
                return Err(Fault::argument(format!(
                    "scalar parameter {} is of type {}, got {}",
                    scalar.parameter,
                    known.dtype(),
                    dtype_of(scalar.dtype)
                        .map_or_else(|| "none".to_owned(), |given| given.to_string())
                )));
            }
            replay = known.set(replay, &scalar.value);
        }
        Ok(replay.replay(&stream)?)
    })
}

/// Destroys the handle of a recording. Never blocks: replays that were added still run. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_recording_destroy(recording: *mut ms_recording) -> ms_status {
    entry(|| destroy(recording))
}

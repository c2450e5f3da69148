//! The properties of GPUs.

use std::ffi::c_char;

use crate::calls::{Out, functions};
use crate::code::Code;
use crate::environment;
use crate::function::MULTIPROCESSORS;
use crate::state::State;

/// The name of a GPU.
const NAME: &[u8] = b"millstream's fake GPU\0";
/// Each byte of the first GPU's UUID; those of the next GPU are one more.
const UUID: u8 = 0xFA;

/// The attributes of a GPU with compute capability 9.0 that the backend or its tests read.
#[rustfmt::skip]
const ATTRIBUTES: &[(u32, i32)] = &[
    (5, i32::MAX),   // MAX_GRID_DIM_X
    (6, 65_535),     // MAX_GRID_DIM_Y
    (7, 65_535),     // MAX_GRID_DIM_Z
    (11, i32::MAX),  // MAX_PITCH
    (16, MULTIPROCESSORS as i32),
    (51, 32),        // TEXTURE_PITCH_ALIGNMENT
    (75, 9),         // COMPUTE_CAPABILITY_MAJOR
    (76, 0),         // COMPUTE_CAPABILITY_MINOR
    (115, 1),        // MEMORY_POOLS_SUPPORTED
    (120, 1),        // CLUSTER_LAUNCH
    (127, 1),        // TENSOR_MAP_ACCESS_SUPPORTED
];

/// Returns the index of a GPU.
pub(super) fn known_device(state: &State, device: i32) -> Result<usize, Code> {
    let index = usize::try_from(device).ok();
    let found = index.filter(|index| *index < state.primaries.len());
    found.ok_or(Code::INVALID_DEVICE)
}

fn attribute(state: &mut State, attribute: u32) -> Result<i32, Code> {
    let found = ATTRIBUTES.iter().find(|(number, _)| *number == attribute);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let report = format!(
            "not modelled: attribute {attribute} of the GPU; add its value to the fake's `ATTRIBUTES`"
        );
        state.refuse(Code::INVALID_VALUE, report)
    })
}

functions! {
    cuDriverGetVersion(version: Out<i32>) Nothing |state| version.put(state.driver_version);
    cuInit(flags: u32) Nothing |state| match (state.session, flags) {
        (None, 0) if environment::begin(state) => {
            state.initialized = true;
            Ok(())
        }
        (None, _) => Err(Code::NO_DEVICE),
        (_, 0) => {
            state.initialized = true;
            Ok(())
        }
        _ => Err(Code::INVALID_VALUE),
    };
    cuDeviceGetCount(count: Out<i32>) Init |state| count.put(state.primaries.len() as i32);
    cuDeviceGet(device: Out<i32>, ordinal: i32) Init |state| {
        known_device(state, ordinal)?;
        device.put(ordinal)
    };
    cuDeviceGetName(name: Out<[u8; NAME.len()]>, room: i32, device: i32) Init |state| {
        known_device(state, device)?;
        if (room as usize) < NAME.len() {
            return Err(Code::INVALID_VALUE);
        }
        let mut text = [0; NAME.len()];
        text.copy_from_slice(NAME);
        name.put(text)
    };
    cuDeviceGetUuid_v2(uuid: Out<[c_char; 16]>, device: i32) Init |state| {
        let index = known_device(state, device)?;
        uuid.put([UUID.wrapping_add(index as u8) as c_char; 16])
    };
    cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) Init |state| {
        known_device(state, device)?;
        bytes.put(state.memory.bytes as usize)
    };
    cuDeviceGetAttribute(value: Out<i32>, number: u32, device: i32) Init |state| {
        known_device(state, device)?;
        value.put(attribute(state, number)?)
    };
    cuMemGetInfo_v2(free: Out<usize>, all: Out<usize>) Context |state| {
        let gpu = state.gpu_of(state.current).ok_or(Code::INVALID_CONTEXT)?;
        free.put(state.memory.free_of(gpu) as usize)?;
        all.put(state.memory.bytes as usize)
    };
}

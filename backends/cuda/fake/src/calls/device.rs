//! The GPU and its primary context.

use std::ffi::c_char;

use crate::call::{pop, push, set_current};
use crate::calls::{Out, functions};
use crate::code::Code;
use crate::state::State;

/// What the fake says of itself.
const NAME: &[u8] = b"millstream's fake GPU\0";
/// CUDA 13.0
const VERSION: i32 = 13_000;
/// Each of its bytes.
const UUID: u8 = 0xFA;

/// A GPU of compute capability 9.0.
const ATTRIBUTES: &[(u32, i32)] = &[
    (1, 1024),       // MAX_THREADS_PER_BLOCK
    (2, 1024),       // MAX_BLOCK_DIM_X
    (3, 1024),       // MAX_BLOCK_DIM_Y
    (4, 64),         // MAX_BLOCK_DIM_Z
    (5, i32::MAX),   // MAX_GRID_DIM_X
    (6, 65_535),     // MAX_GRID_DIM_Y
    (7, 65_535),     // MAX_GRID_DIM_Z
    (8, 48 << 10),   // MAX_SHARED_MEMORY_PER_BLOCK
    (10, 32),        // WARP_SIZE
    (12, 65_536),    // MAX_REGISTERS_PER_BLOCK
    (16, 4),         // MULTIPROCESSOR_COUNT
    (40, 3),         // ASYNC_ENGINE_COUNT
    (41, 1),         // UNIFIED_ADDRESSING
    (51, 32),        // TEXTURE_PITCH_ALIGNMENT
    (75, 9),         // COMPUTE_CAPABILITY_MAJOR
    (76, 0),         // COMPUTE_CAPABILITY_MINOR
    (97, 227 << 10), // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    (115, 1),        // MEMORY_POOLS_SUPPORTED
    (120, 0),        // CLUSTER_LAUNCH
];

fn known_device(device: i32) -> Result<(), Code> {
    match device {
        0 => Ok(()),
        _ => Err(Code::INVALID_DEVICE),
    }
}

fn known_context(state: &mut State, call: &str, context: u64) -> Result<(), Code> {
    if context == state.context && state.retained > 0 {
        return Ok(());
    }
    // A lost device's threads may outlive the session in which it was lost.
    if context <= state.handles_before {
        return Err(Code::CONTEXT_IS_DESTROYED);
    }
    state.report(format!(
        "wrong handle: {call} is given {context:#x}, which is no living context"
    ));
    Err(Code::INVALID_CONTEXT)
}

fn attribute(state: &mut State, attribute: u32) -> Result<i32, Code> {
    let found = ATTRIBUTES.iter().find(|(number, _)| *number == attribute);
    found.map(|(_, value)| *value).ok_or_else(|| {
        state.report(format!(
            "not modelled: attribute {attribute} of the GPU; say its value in the fake's `ATTRIBUTES`"
        ));
        Code::INVALID_VALUE
    })
}

functions! {
    cuDriverGetVersion(version: Out<i32>) Nothing |_state| version.put(VERSION);
    cuInit(flags: u32) Nothing |state| match (state.session, flags) {
        (None, _) => Err(Code::NO_DEVICE),
        (_, 0) => {
            state.initialized = true;
            Ok(())
        }
        _ => Err(Code::INVALID_VALUE),
    };
    cuDeviceGetCount(count: Out<i32>) Init |_state| count.put(1);
    cuDeviceGet(device: Out<i32>, ordinal: i32) Init |_state| {
        known_device(ordinal)?;
        device.put(0)
    };
    cuDeviceGetName(name: Out<[u8; NAME.len()]>, room: i32, device: i32) Init |_state| {
        known_device(device)?;
        if (room as usize) < NAME.len() {
            return Err(Code::INVALID_VALUE);
        }
        let mut text = [0; NAME.len()];
        text.copy_from_slice(NAME);
        name.put(text)
    };
    cuDeviceGetUuid_v2(uuid: Out<[c_char; 16]>, device: i32) Init |_state| {
        known_device(device)?;
        uuid.put([UUID as c_char; 16])
    };
    cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) Init |state| {
        known_device(device)?;
        bytes.put(state.memory.bytes as usize)
    };
    cuDeviceGetAttribute(value: Out<i32>, number: u32, device: i32) Init |state| {
        known_device(device)?;
        value.put(attribute(state, number)?)
    };
    cuDevicePrimaryCtxRetain(context: Out<u64>, device: i32) Init |state| {
        known_device(device)?;
        if let Some(sticky) = state.sticky {
            return Err(sticky);
        }
        if state.retained == 0 {
            state.context = state.handle();
        }
        context.put(state.context)?;
        state.retained += 1;
        Ok(())
    };
    cuDevicePrimaryCtxRelease_v2(device: i32) Release |state| {
        known_device(device)?;
        if state.retained == 0 {
            state.report("wrong release: the primary context is released more often than retained".to_owned());
            return Err(Code::INVALID_CONTEXT);
        }
        state.retained -= 1;
        Ok(())
    };
    cuCtxSetCurrent(context: u64) Nothing |state| {
        if context != 0 {
            known_context(state, "cuCtxSetCurrent", context)?;
        }
        set_current(state, context);
        Ok(())
    };
    cuCtxPushCurrent_v2(context: u64) Nothing |state| {
        known_context(state, "cuCtxPushCurrent_v2", context)?;
        push(state, context);
        Ok(())
    };
    // As `Release`: what cannot pop has popped.
    cuCtxPopCurrent_v2(context: Out<u64>) Release |_state| {
        let popped = pop().filter(|context| *context != 0).ok_or(Code::INVALID_CONTEXT)?;
        match context.is_wanted() {
            true => context.put(popped),
            false => Ok(()),
        }
    };
    cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) Context |_state| {
        if least.is_wanted() {
            least.put(0)?;
        }
        if greatest.is_wanted() {
            greatest.put(-5)?;
        }
        Ok(())
    };
    cuMemGetInfo_v2(free: Out<usize>, all: Out<usize>) Context |state| {
        free.put((state.memory.bytes - state.memory.used) as usize)?;
        all.put(state.memory.bytes as usize)
    };
}

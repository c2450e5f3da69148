//! Contexts, and the current context of a thread.

use crate::call::{pop, push, set_current, set_stale};
use crate::calls::device::known_device;
use crate::calls::{Out, functions};
use crate::code::Code;
use crate::state::State;

/// The highest priority of a stream; the lowest is 0.
pub(super) const PRIORITY_GREATEST: i32 = -5;

/// Returns the GPU of a live context.
pub(super) fn known_context(state: &mut State, call: &str, context: u64) -> Result<usize, Code> {
    if let Some(index) = state.gpu_of(context) {
        return Ok(index);
    }
    // The threads of a lost device may outlive its session.
    if context <= state.past_handles_end {
        set_stale();
        return Err(Code::CONTEXT_IS_DESTROYED);
    }
    state.report(format!(
        "invalid handle: {call} receives {context:#x}, which is not a live context"
    ));
    Err(Code::INVALID_CONTEXT)
}

/// The flags for waiting: spin, yield, block.
const FLAGS: u32 = 1 | 2 | 4;

/// Destroys a context that is not a primary one. NVIDIA's driver destroys everything in it; here, remaining objects are
/// reported.
fn destroy(state: &mut State, context: u64) -> Result<(), Code> {
    let call = "cuCtxDestroy_v2";
    known_context(state, call, context)?;
    if state.contexts.remove(&context).is_none() {
        state.report(format!(
            "invalid handle: {call} receives a primary context, which must be released instead"
        ));
        return Err(Code::INVALID_CONTEXT);
    }
    if state.current == context {
        pop();
    }
    let streams = state.streams.live.values();
    let left = [
        (
            streams
                .filter(|stream| stream.context == context && !stream.destroyed)
                .count(),
            "streams",
        ),
        (
            state
                .events
                .values()
                .filter(|event| event.context == context)
                .count(),
            "events",
        ),
        (
            state
                .functions
                .values()
                .filter(|function| function.context == context)
                .count(),
            "functions",
        ),
        (state.memory.live_blocks_in(context), "blocks of memory"),
    ];
    for (count, what) in left.into_iter().filter(|(count, _)| *count > 0) {
        state.report(format!(
            "destroyed with its context: {call} destroys a context with {count} {what} in it"
        ));
    }
    Ok(())
}

functions! {
    cuDevicePrimaryCtxRetain(context: Out<u64>, device: i32) Init |state| {
        let index = known_device(state, device)?;
        if let Some(sticky) = state.sticky {
            return Err(sticky);
        }
        if state.primaries[index].retained == 0 {
            state.primaries[index].context = state.handle();
        }
        context.put(state.primaries[index].context)?;
        state.primaries[index].retained += 1;
        Ok(())
    };
    cuDevicePrimaryCtxRelease_v2(device: i32) Release |state| {
        let index = known_device(state, device)?;
        if state.primaries[index].retained == 0 {
            state.report("invalid release: the primary context is released more often than retained".to_owned());
            return Err(Code::INVALID_CONTEXT);
        }
        state.primaries[index].retained -= 1;
        if state.primaries[index].retained == 0 {
            let ended = state.primaries[index].context;
            let enabled = &mut state.peers.enabled;
            enabled.retain(|(by, of)| *by != ended && *of != ended);
        }
        Ok(())
    };
    // The parameters are for features that are not modelled; the flags specify how the host waits.
    cuCtxCreate_v4(context: Out<u64>, parameters: u64, flags: u32, device: i32) Init |state| {
        let index = known_device(state, device)?;
        if parameters != 0 || flags & !FLAGS != 0 {
            state.report("not modelled: a context with parameters, or with flags other than those for waiting".to_owned());
            return Err(Code::NOT_SUPPORTED);
        }
        let handle = state.handle();
        context.put(handle)?;
        state.contexts.insert(handle, index);
        push(state, handle);
        Ok(())
    };
    cuCtxDestroy_v2(context: u64) Release |state| destroy(state, context);
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
    // With a fault, the context is popped nevertheless.
    cuCtxPopCurrent_v2(context: Out<u64>) Release |_state| {
        let popped = pop().filter(|context| *context != 0).ok_or(Code::INVALID_CONTEXT)?;
        match context.is_requested() {
            true => context.put(popped),
            false => Ok(()),
        }
    };
    // Null on a thread without a context, which is not an error.
    cuCtxGetCurrent(context: Out<u64>) Init |state| context.put(state.current);
    cuCtxGetDevice(device: Out<i32>) Context |state| {
        let index = state.gpu_of(state.current).ok_or(Code::INVALID_CONTEXT)?;
        device.put(index as i32)
    };
    cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) Context |_state| {
        if least.is_requested() {
            least.put(0)?;
        }
        if greatest.is_requested() {
            greatest.put(PRIORITY_GREATEST)?;
        }
        Ok(())
    };
}

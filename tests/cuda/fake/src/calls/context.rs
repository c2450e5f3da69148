//! Primary contexts, and which is current on a thread.

use crate::call::{pop, push, set_current};
use crate::calls::device::known_device;
use crate::calls::{Out, functions};
use crate::code::Code;
use crate::state::State;

/// The greatest priority of a stream; the least is 0.
pub(super) const PRIORITY_GREATEST: i32 = -5;

/// The GPU of a living context.
pub(super) fn known_context(state: &mut State, call: &str, context: u64) -> Result<usize, Code> {
    if let Some(place) = state.gpu_of(context) {
        return Ok(place);
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

/// Spin, yield, block: how the host waits.
const FLAGS: u32 = 1 | 2 | 4;

/// Ends a context that is no primary one. NVIDIA's ends all that is in it; here that is left over is a mistake.
fn destroy(state: &mut State, context: u64) -> Result<(), Code> {
    let call = "cuCtxDestroy_v2";
    known_context(state, call, context)?;
    if state.contexts.remove(&context).is_none() {
        state.report(format!(
            "wrong handle: {call} is given a primary context, which is released"
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
        (state.memory.made_in(context), "blocks of memory"),
    ];
    for (count, what) in left.into_iter().filter(|(count, _)| *count > 0) {
        state.report(format!(
            "ended with its context: {call} ends one with {count} {what} in it"
        ));
    }
    Ok(())
}

functions! {
    cuDevicePrimaryCtxRetain(context: Out<u64>, device: i32) Init |state| {
        let place = known_device(state, device)?;
        if let Some(sticky) = state.sticky {
            return Err(sticky);
        }
        if state.primaries[place].retained == 0 {
            state.primaries[place].context = state.handle();
        }
        context.put(state.primaries[place].context)?;
        state.primaries[place].retained += 1;
        Ok(())
    };
    cuDevicePrimaryCtxRelease_v2(device: i32) Release |state| {
        let place = known_device(state, device)?;
        if state.primaries[place].retained == 0 {
            state.report("wrong release: the primary context is released more often than retained".to_owned());
            return Err(Code::INVALID_CONTEXT);
        }
        state.primaries[place].retained -= 1;
        if state.primaries[place].retained == 0 {
            let ended = state.primaries[place].context;
            let enabled = &mut state.peers.enabled;
            enabled.retain(|(by, of)| *by != ended && *of != ended);
        }
        Ok(())
    };
    // Its parameters are for what is not modelled; flags say how the host waits.
    cuCtxCreate_v4(context: Out<u64>, parameters: u64, flags: u32, device: i32) Init |state| {
        let place = known_device(state, device)?;
        if parameters != 0 || flags & !FLAGS != 0 {
            state.report("not modelled: a context with parameters, or with flags that say more than how to wait".to_owned());
            return Err(Code::NOT_SUPPORTED);
        }
        let made = state.handle();
        context.put(made)?;
        state.contexts.insert(made, place);
        push(state, made);
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
    // As `Release`: what cannot pop has popped.
    cuCtxPopCurrent_v2(context: Out<u64>) Release |_state| {
        let popped = pop().filter(|context| *context != 0).ok_or(Code::INVALID_CONTEXT)?;
        match context.is_wanted() {
            true => context.put(popped),
            false => Ok(()),
        }
    };
    // Of a thread without one it is null, and that is no error.
    cuCtxGetCurrent(context: Out<u64>) Init |state| context.put(state.current);
    cuCtxGetDevice(device: Out<i32>) Context |state| {
        let place = state.gpu_of(state.current).ok_or(Code::INVALID_CONTEXT)?;
        device.put(place as i32)
    };
    cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) Context |_state| {
        if least.is_wanted() {
            least.put(0)?;
        }
        if greatest.is_wanted() {
            greatest.put(PRIORITY_GREATEST)?;
        }
        Ok(())
    };
}

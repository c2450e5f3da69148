//! Contexts, and the current context of a thread.

use crate::call::{pop, push, set_current, set_stale};
use crate::calls::device::known_device;
use crate::calls::{Out, functions};
use crate::code::Code;
use crate::state::State;

/// The highest priority of a stream; the lowest is 0.
pub(super) const PRIORITY_GREATEST: i32 = -5;

/// Returns the GPU of a live context.
pub(super) fn known_context(state: &mut State, context: u64) -> Result<usize, Code> {
    let live = state.gpu_of(context);
    if let (Some(index), true) = (live, state.session.is_some()) {
        return Ok(index);
    }
    // The threads of a lost device may outlive its session: they get no context between that session and the next either,
    // which they would give back in the next one.
    if live.is_some() || context <= state.past_handles_end {
        set_stale();
        return Err(Code::CONTEXT_IS_DESTROYED);
    }
    let call = state.call;
    let report =
        format!("invalid handle: {call} receives {context:#x}, which is not a live context");
    Err(state.refuse(Code::INVALID_CONTEXT, report))
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
            let report = "invalid release: the primary context is released more often than retained";
            return Err(state.refuse(Code::INVALID_CONTEXT, report));
        }
        state.primaries[index].retained -= 1;
        Ok(())
    };
    cuCtxSetCurrent(context: u64) Nothing |state| {
        if context != 0 {
            known_context(state, context)?;
        }
        set_current(state, context);
        Ok(())
    };
    cuCtxPushCurrent_v2(context: u64) Nothing |state| {
        known_context(state, context)?;
        push(state, context);
        Ok(())
    };
    // With a fault, the context is popped nevertheless.
    cuCtxPopCurrent_v2(context: Out<u64>) Release |_state| {
        let popped = pop().filter(|context| *context != 0).ok_or(Code::INVALID_CONTEXT)?;
        context.put_if_requested(popped);
        Ok(())
    };
    cuCtxGetDevice(device: Out<i32>) Context |state| {
        let index = state.gpu_of(state.current).ok_or(Code::INVALID_CONTEXT)?;
        device.put(index as i32)
    };
    cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) Context |_state| {
        least.put_if_requested(0);
        greatest.put_if_requested(PRIORITY_GREATEST);
        Ok(())
    };
}

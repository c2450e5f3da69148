//! Host functions in streams, and refused calls: those that wait for all streams, or make all streams wait.

use crate::calls::functions;
use crate::code::Code;
use crate::host_function::HostFunction;
use crate::operation::Operation;
use crate::state::State;

/// Refuses a call of the default stream. Modelled streams do not synchronize with the default stream, so such a call
/// does not order what it seems to. It is also unsafe while a stream is captured.
fn refuse(state: &mut State, call: &str) -> Result<(), Code> {
    state.check_safe(call)?;
    let call = state.this_call(call);
    state.report(format!(
        "legacy call: {call} uses the default stream or waits for everything; pass a stream, and wait for an event"
    ));
    Err(Code::NOT_SUPPORTED)
}

functions! {
    cuLaunchHostFunc(stream: u64, function: Option<HostFunction>, data: u64) Context |state| {
        let function = function.ok_or(Code::INVALID_VALUE)?;
        state.queue("cuLaunchHostFunc", stream, Operation::Call { function, data })?;
        Ok(())
    };
    cuCtxSynchronize() Context |state| refuse(state, "cuCtxSynchronize");
    cuMemcpyHtoD_v2(_target: u64, _source: u64, _bytes: usize) Context |state| refuse(state, "cuMemcpyHtoD_v2");
    cuMemcpyDtoH_v2(_target: u64, _source: u64, _bytes: usize) Context |state| refuse(state, "cuMemcpyDtoH_v2");
    cuMemcpyDtoD_v2(_target: u64, _source: u64, _bytes: usize) Context |state| refuse(state, "cuMemcpyDtoD_v2");
    cuMemsetD8_v2(_target: u64, _value: u8, _count: usize) Context |state| refuse(state, "cuMemsetD8_v2");
    cuMemsetD32_v2(_target: u64, _value: u32, _count: usize) Context |state| refuse(state, "cuMemsetD32_v2");
}

//! Functions of the host's in streams, and calls that are refused because they wait for all streams, or make all wait.

use crate::calls::functions;
use crate::code::Code;
use crate::host_function::HostFunction;
use crate::operation::Operation;
use crate::state::State;

/// No stream of ours waits for the default stream, so these order nothing that they seem to; and they are not safe while a
/// stream is captured.
fn refuse(state: &mut State, call: &str) -> Result<(), Code> {
    state.must_be_safe(call)?;
    let call = state.this_call(call);
    state.report(format!(
        "legacy call: {call} is of the default stream, or waits for everything: give a stream, and wait for an event"
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

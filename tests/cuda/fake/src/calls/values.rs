//! Memory operations of streams: a word is written in the order of a stream. *Waiting* for a word is refused: the
//! driver does not see the order between streams, and the documentation warns of deadlocks.

use crate::calls::functions;
use crate::code::Code;
use crate::operation::{Operation, Rows};
use crate::state::State;

/// `CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER`
const NO_BARRIER: u32 = 1;

fn write(
    state: &mut State,
    call: &str,
    stream: u64,
    word: Rows,
    value: u64,
    flags: u32,
) -> Result<(), Code> {
    state.known_stream(call, stream)?;
    let error = if !state.writes_values {
        Some((
            "the GPU does not support memory operations; query its attribute first",
            Code::NOT_SUPPORTED,
        ))
    } else if flags & !NO_BARRIER != 0 {
        Some(("unknown flags", Code::INVALID_VALUE))
    } else if !word.start.is_multiple_of(word.width) {
        Some(("the word is not aligned to its size", Code::INVALID_VALUE))
    } else {
        None
    };
    if let Some((error, code)) = error {
        let call = state.this_call(call);
        state.report(format!(
            "invalid word: {call} receives {:#x}: {error}",
            word.start
        ));
        return Err(code);
    }
    state.check_memory(call, word)?;
    let why = "writes a word, which is not modelled in a captured stream";
    state.check_not_captured(call, stream, why)?;
    state.memory.expect_write(word.bounds());
    let operation = Operation::WriteValue {
        address: word.start,
        bytes: word.width,
        value,
        releases: flags & NO_BARRIER == 0,
    };
    state.queue(call, stream, operation)?;
    Ok(())
}

fn refuse_wait(state: &mut State, call: &str, stream: u64) -> Result<(), Code> {
    state.known_stream(call, stream)?;
    let call = state.this_call(call);
    state.report(format!(
        "invalid wait: {call} makes a stream wait for a word, which may deadlock; wait for an event"
    ));
    Err(Code::NOT_SUPPORTED)
}

functions! {
    cuStreamWriteValue64_v2(stream: u64, address: u64, value: u64, flags: u32) Context |state| {
        write(state, "cuStreamWriteValue64_v2", stream, Rows::line(address, 8), value, flags)
    };
    cuStreamWriteValue32_v2(stream: u64, address: u64, value: u32, flags: u32) Context |state| {
        write(state, "cuStreamWriteValue32_v2", stream, Rows::line(address, 4), value.into(), flags)
    };
    cuStreamWaitValue64_v2(stream: u64, _address: u64, _value: u64, _flags: u32) Context |state| {
        refuse_wait(state, "cuStreamWaitValue64_v2", stream)
    };
    cuStreamWaitValue32_v2(stream: u64, _address: u64, _value: u32, _flags: u32) Context |state| {
        refuse_wait(state, "cuStreamWaitValue32_v2", stream)
    };
}

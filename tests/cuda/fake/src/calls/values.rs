//! Memory operations of streams: a word is written in a stream's order. To *wait* for a word orders queues behind the
//! driver's back, and is documented to deadlock: it is refused.

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
    let wrong = if !state.writes_values {
        Some((
            "the GPU has no memory operations: ask its attribute first",
            Code::NOT_SUPPORTED,
        ))
    } else if flags & !NO_BARRIER != 0 {
        Some(("flags that there are not", Code::INVALID_VALUE))
    } else if !word.start.is_multiple_of(word.width) {
        Some((
            "a word that is not aligned to its size",
            Code::INVALID_VALUE,
        ))
    } else {
        None
    };
    if let Some((wrong, code)) = wrong {
        let call = state.this_call(call);
        state.report(format!(
            "wrong word: {call} is given {:#x}: {wrong}",
            word.start
        ));
        return Err(code);
    }
    state.must_be_there(call, word)?;
    let why = "writes a word, which is not modelled in a stream that is captured";
    state.must_not_be_captured(call, stream, why)?;
    state.memory.await_write(word.bounds());
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
        "wrong wait: {call} makes a stream wait for a word, which CUDA cannot see and which may deadlock: wait for an event"
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

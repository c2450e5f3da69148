//! Memory operations of streams: a word is written in the order of a stream.

use crate::calls::functions;
use crate::code::Code;
use crate::operation::{Operation, Rows};
use crate::state::State;

fn write(state: &mut State, stream: u64, word: Rows, value: u64, flags: u32) -> Result<(), Code> {
    let call = "cuStreamWriteValue64_v2";
    state.known_stream(call, stream)?;
    let error = if !state.writes_values {
        Some((
            "the GPU does not support memory operations; query its attribute first",
            Code::NOT_SUPPORTED,
        ))
    } else if flags != 0 {
        Some(("flags that are not modelled", Code::INVALID_VALUE))
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
    state.memory.expect_write(word.bounds());
    let operation = Operation::WriteValue {
        address: word.start,
        value,
    };
    state.queue(call, stream, operation)?;
    Ok(())
}

functions! {
    cuStreamWriteValue64_v2(stream: u64, address: u64, value: u64, flags: u32) Context |state| {
        write(state, stream, Rows::line(address, 8), value, flags)
    };
}

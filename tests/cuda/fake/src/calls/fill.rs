//! Fills (memsets).

use crate::calls::functions;
use crate::code::Code;
use crate::operation::{Operation, Rows};
use crate::state::State;

/// Fills rows with a unit; their start must be aligned to it.
fn fill(state: &mut State, call: &str, target: Rows, unit: &[u8], stream: u64) -> Result<(), Code> {
    state.known_stream(call, stream)?;
    if !target.start.is_multiple_of(unit.len() as u64) {
        let call = state.this_call(call);
        state.report(format!(
            "misaligned: {call} fills from {:#x} with units of {} bytes",
            target.start,
            unit.len()
        ));
        return Err(Code::INVALID_VALUE);
    }
    state.check_memory(call, target)?;
    let unit = unit.to_vec();
    state.queue(call, stream, Operation::Fill { target, unit })?;
    Ok(())
}

/// Returns `count` units of `width` bytes, unless that overflows.
fn units(start: u64, count: usize, width: usize) -> Result<Rows, Code> {
    let bytes = count.checked_mul(width).ok_or(Code::INVALID_VALUE)?;
    Ok(Rows::line(start, bytes as u64))
}

functions! {
    cuMemsetD8Async(target: u64, value: u8, count: usize, stream: u64) Context |state| {
        fill(state, "cuMemsetD8Async", units(target, count, 1)?, &[value], stream)
    };
    cuMemsetD16Async(target: u64, value: u16, count: usize, stream: u64) Context |state| {
        fill(state, "cuMemsetD16Async", units(target, count, 2)?, &value.to_le_bytes(), stream)
    };
    cuMemsetD32Async(target: u64, value: u32, count: usize, stream: u64) Context |state| {
        fill(state, "cuMemsetD32Async", units(target, count, 4)?, &value.to_le_bytes(), stream)
    };
    cuMemsetD2D8Async(target: u64, pitch: usize, value: u8, width: usize, height: usize, stream: u64) Context |state| {
        if height > 1 && pitch < width {
            return Err(Code::INVALID_VALUE);
        }
        let rows = Rows {
            start: target,
            pitch: pitch as u64,
            width: width as u64,
            rows: height as u64,
        };
        fill(state, "cuMemsetD2D8Async", rows, &[value], stream)
    };
}

//! Fills (memsets).

use crate::calls::functions;
use crate::code::Code;
use crate::operation::{Operation, Rows};
use crate::state::State;

/// Fills rows with a unit; their start must be aligned to it.
fn fill(state: &mut State, target: Rows, unit: &[u8], stream: u64) -> Result<(), Code> {
    state.stream(stream)?;
    let (start, unit) = (target.start, unit.to_vec());
    if !start.is_multiple_of(unit.len() as u64) {
        let (call, bytes) = (state.this_call(), unit.len());
        let report =
            format!("misaligned: {call} fills from {start:#x} with units of {bytes} bytes");
        return Err(state.refuse(Code::INVALID_VALUE, report));
    }
    state.check_memory(target)?;
    state.queue(stream, Operation::Fill { target, unit })?;
    Ok(())
}

/// Fills `count` units.
fn line(state: &mut State, at: u64, unit: &[u8], count: usize, stream: u64) -> Result<(), Code> {
    let bytes = count.checked_mul(unit.len()).ok_or(Code::INVALID_VALUE)?;
    fill(state, Rows::line(at, bytes as u64), unit, stream)
}

functions! {
    cuMemsetD8Async(target: u64, value: u8, count: usize, stream: u64) Context |state| {
        line(state, target, &[value], count, stream)
    };
    cuMemsetD16Async(target: u64, value: u16, count: usize, stream: u64) Context |state| {
        line(state, target, &value.to_le_bytes(), count, stream)
    };
    cuMemsetD32Async(target: u64, value: u32, count: usize, stream: u64) Context |state| {
        line(state, target, &value.to_le_bytes(), count, stream)
    };
    cuMemsetD2D8Async(target: u64, pitch: usize, value: u8, width: usize, height: usize, stream: u64) Context |state| {
        if height > 1 && pitch < width {
            return Err(Code::INVALID_VALUE);
        }
        let [pitch, width, rows] = [pitch, width, height].map(|count| count as u64);
        fill(state, Rows { start: target, pitch, width, rows }, &[value], stream)
    };
}

//! Fills: the driver sets units of one, two or four bytes; longer patterns and odd ends are made of those.

use cudarc::driver::sys::{CUdeviceptr, CUstream};
use millstream_core::message::Pattern;

use crate::driver::{Api, Code};

/// The call that was refused, and whether one before it is under way.
pub(crate) struct Cut {
    pub(crate) call: &'static str,
    pub(crate) code: Code,
    pub(crate) begun: bool,
}

impl Cut {
    fn after(self, begun: bool) -> Self {
        Self { begun, ..self }
    }
}

/// Fills `bytes` from `address` with the pattern, cut where they end. The memory is within a page.
pub(crate) fn fill(
    api: &Api,
    stream: CUstream,
    address: CUdeviceptr,
    bytes: usize,
    pattern: Pattern,
) -> Result<(), Cut> {
    let unit = pattern.bytes();
    let width = usize::from(pattern.width).clamp(1, unit.len());
    let unit = &unit[..width];
    if bytes == 0 {
        return Ok(());
    }
    let aligned = address.is_multiple_of(width as u64);
    let whole = bytes / width;
    let same = unit.iter().all(|byte| *byte == unit[0]);
    // SAFETY: of all calls below: what is set is within the range that the caller vouches for.
    unsafe {
        match unit {
            _ if same => answer(
                "cuMemsetD8Async",
                (api.fill_8)(address, unit[0], bytes, stream),
            ),
            [low, high] if aligned => {
                let value = u16::from_le_bytes([*low, *high]);
                answer(
                    "cuMemsetD16Async",
                    (api.fill_16)(address, value, whole, stream),
                )?;
                rest(api, stream, address, bytes, unit)
            }
            [a, b, c, d] if aligned => {
                let value = u32::from_le_bytes([*a, *b, *c, *d]);
                answer(
                    "cuMemsetD32Async",
                    (api.fill_32)(address, value, whole, stream),
                )?;
                rest(api, stream, address, bytes, unit)
            }
            _ => {
                // A column for each byte of the pattern.
                for (column, byte) in unit.iter().enumerate() {
                    let rows = (bytes + width - 1 - column) / width;
                    if rows > 0 {
                        let start = address + column as u64;
                        let set = (api.fill_8_2d)(start, width, *byte, 1, rows, stream);
                        answer("cuMemsetD2D8Async", set).map_err(|cut| cut.after(column > 0))?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// The pattern's first bytes, where a whole one has no room.
///
/// # Safety
/// The range is within a page.
unsafe fn rest(
    api: &Api,
    stream: CUstream,
    address: CUdeviceptr,
    bytes: usize,
    unit: &[u8],
) -> Result<(), Cut> {
    let done = bytes - bytes % unit.len();
    for (place, byte) in unit.iter().take(bytes - done).enumerate() {
        let at = address + (done + place) as u64;
        // SAFETY: the caller's promise.
        answer("cuMemsetD8Async", unsafe {
            (api.fill_8)(at, *byte, 1, stream)
        })
        .map_err(|cut| cut.after(true))?;
    }
    Ok(())
}

fn answer(call: &'static str, answer: u32) -> Result<(), Cut> {
    let begun = false;
    Code::check(answer).map_err(|code| Cut { call, code, begun })
}

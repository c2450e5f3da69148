//! Checks that a Rust type represents the elements of a buffer.

use millstream_ir::DType;
use millstream_protocol::Element;

use crate::error::ScheduleError;

/// Checks that `T` has the expected elements, or is `u8`: any buffer can be accessed as bytes.
pub(crate) fn check_elements<T: Element>(
    expected: DType,
    name: impl FnOnce() -> String,
) -> Result<(), ScheduleError> {
    let given = T::DTYPE;
    if given == expected || given == DType::U8 {
        return Ok(());
    }
    let name = name();
    Err(ScheduleError::Elements {
        name,
        expected,
        given,
    })
}

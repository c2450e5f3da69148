//! Whether elements of a Rust type may stand for those of a buffer.

use millstream_ir::DType;
use millstream_protocol::element::Element;

use crate::error::ScheduleError;

/// Are these the elements that something has? Bytes are what anything is made of.
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

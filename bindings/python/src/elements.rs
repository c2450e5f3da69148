//! Numbers of elements: shapes, their bytes, and fills of any element type.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::errors::argument_error;

/// A shape: an `int`, or a sequence of them.
#[derive(FromPyObject)]
pub(crate) enum Shape {
    Length(usize),
    Axes(Vec<usize>),
}

impl Shape {
    pub(crate) fn axes(self) -> Arc<[usize]> {
        match self {
            Shape::Length(length) => [length].into(),
            Shape::Axes(axes) => axes.into(),
        }
    }
}

/// Returns the bytes of a shape, unless they or one of its strides exceed what an object may have: `isize::MAX`.
pub(crate) fn checked_bytes(shape: &[usize], size: usize) -> Option<usize> {
    // A length of 0 counts as 1: there are no elements then, but consumers read the strides.
    let room = shape
        .iter()
        .try_fold(size, |bytes, length| bytes.checked_mul((*length).max(1)))?;
    isize::try_from(room).ok()?;
    Some(if shape.contains(&0) { 0 } else { room })
}

/// Returns the strides of C-contiguous elements, in units of which an element has `unit`. The shape was checked by
/// [`checked_bytes`], so that no stride overflows.
pub(crate) fn strides_of(shape: &[usize], unit: usize) -> impl Iterator<Item = isize> {
    (0..shape.len()).map(move |axis| (unit * shape[axis + 1..].iter().product::<usize>()) as isize)
}

/// Returns the bytes of a shape.
///
/// # Errors
/// `ArgumentError` if they overflow, as [`checked_bytes`].
pub(crate) fn bytes_of(shape: &[usize], size: usize) -> PyResult<usize> {
    let too_many = || {
        let shape = tuple_of(shape);
        let message = format!("elements of {size} bytes of shape {shape} exceed 2^63 bytes");
        argument_error(message)
    };
    checked_bytes(shape, size).ok_or_else(too_many)
}

/// Formats a shape as Python does: `(2, 3)`, `(2,)`, `()`.
pub(crate) fn tuple_of(shape: &[impl ToString]) -> String {
    match shape {
        [length] => format!("({},)", length.to_string()),
        _ => {
            let lengths: Vec<_> = shape.iter().map(ToString::to_string).collect();
            format!("({})", lengths.join(", "))
        }
    }
}

/// Fills with an element of this size whose bits are given, by the method `fill` of a stream or a recorder.
macro_rules! fill_with {
    ($to:expr, $handle:expr, $size:expr, $bits:expr) => {
        match $size {
            1 => $to.fill($handle, $bits as u8),
            2 => $to.fill(&$handle.cast()?, $bits as u16),
            4 => $to.fill(&$handle.cast()?, $bits as u32),
            _ => $to.fill(&$handle.cast()?, $bits),
        }
    };
}
pub(crate) use fill_with;

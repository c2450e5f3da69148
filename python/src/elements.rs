//! Numbers of elements: shapes, their bytes, and fills of any element type.

use std::sync::Arc;

use millstream::{Error, Handle};
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

/// Returns the bytes of a shape.
pub(crate) fn bytes_of(py: Python<'_>, shape: &[usize], size: usize) -> PyResult<usize> {
    let bytes = shape
        .iter()
        .try_fold(size, |bytes, length| bytes.checked_mul(*length));
    bytes.ok_or_else(|| argument_error(py, format!("{shape:?} elements exceed 2^64 bytes")))
}

/// Fills with an element whose bits are given.
pub(crate) fn fill_with<R>(
    handle: &Handle<u8>,
    size: usize,
    bits: u64,
    fill: impl Fill<R>,
) -> Result<R, Error> {
    match size {
        1 => fill.fill(handle, bits as u8),
        2 => fill.fill(&handle.cast::<u16>()?, bits as u16),
        4 => fill.fill(&handle.cast::<u32>()?, bits as u32),
        _ => fill.fill(&handle.cast::<u64>()?, bits),
    }
}

/// A fill of any element type.
pub(crate) trait Fill<R> {
    fn fill<T: millstream::Element>(self, handle: &Handle<T>, value: T) -> Result<R, Error>;
}

impl Fill<()> for &millstream::Stream {
    fn fill<T: millstream::Element>(self, handle: &Handle<T>, value: T) -> Result<(), Error> {
        millstream::Stream::fill(self, handle, value)
    }
}

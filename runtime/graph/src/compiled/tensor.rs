//! Results of runs on the host: values, shape, and printing.

use std::fmt;

use millstream_client::handle::Handle;
use millstream_client::{Pending, Stream};
use millstream_ir::DType;
use millstream_ir::scalar::{self, Number};
use millstream_protocol::Element;
use smallvec::SmallVec;

use crate::elements::check_elements;
use crate::error::ScheduleError;
use crate::lazy::buffer::LazyBuffer;
use crate::literal::text;
use crate::schedule::Schedule;

/// Tensors of at most this many elements are printed completely; of larger ones the first and last three along each
/// axis.
const PRINTED: usize = 1000;

/// The number of elements at each end of a long axis that are printed.
const EDGE: usize = 3;

/// A dense array on the host in row-major order. It prints like a NumPy array.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    dtype: DType,
    shape: Vec<u64>,
    bytes: Vec<u8>,
}

impl LazyBuffer {
    /// Computes this buffer on a stream, and waits for the result. Every input must be a
    /// [`Graph::buffer`](crate::Graph::buffer), and every length must be known.
    ///
    /// Each call schedules and compiles the expression, which takes tens of microseconds on a CPU and the time of a
    /// compiler on a GPU. If you compute it more than once, compile a [`Schedule`] once. Blocks until the earlier work
    /// of the stream and this result have completed; not for threads of the runtime.
    ///
    /// ```
    /// # use millstream_graph::{Graph, ScheduleError};
    /// # fn f(stream: &millstream_client::Stream) -> Result<(), ScheduleError> {
    /// let graph = Graph::new();
    /// let squares = graph.iota(4) * graph.iota(4);
    /// let squares = squares.eval(stream)?;
    /// assert_eq!(squares.to_string(), "[0, 1, 4, 9]");
    /// assert_eq!(squares.values::<i64>()?, [0, 1, 4, 9]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Schedule::create`], [`Schedule::compile`] and [`Run::submit`](crate::Run::submit); a failure of the data.
    pub fn eval(&self, stream: &Stream) -> Result<Tensor, ScheduleError> {
        let compiled = Schedule::create_one(self)?.compile(stream.client())?;
        let outputs = compiled.run().submit(stream)?;
        let output = outputs.first().ok_or(ScheduleError::NoRoots)?;
        output.tensor(stream)
    }
}

impl Output {
    /// Reads the output, and waits for it.
    ///
    /// # Errors
    /// A failure of the data, or of the device.
    pub fn tensor(&self, stream: &Stream) -> Result<Tensor, ScheduleError> {
        Ok(Tensor {
            dtype: self.dtype(),
            shape: self.shape().to_vec(),
            bytes: stream.read(self.bytes()).wait()?,
        })
    }
}

impl Tensor {
    /// Returns the type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the lengths, slowest axis first.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the elements in row-major order. Any tensor can be returned as bytes.
    ///
    /// # Errors
    /// [`ScheduleError::Elements`] if `T` is neither the element type nor `u8`.
    pub fn values<T: Element>(&self) -> Result<Vec<T>, ScheduleError> {
        check_elements::<T>(self.dtype, || "the tensor".to_owned())?;
        Ok(bytemuck::pod_collect_to_vec(&self.bytes))
    }

    /// Returns one element as text.
    fn element(&self, index: usize) -> String {
        let bits = scalar::load(self.dtype, &self.bytes[index * self.dtype.size()..]);
        match Number::of(self.dtype, bits) {
            Number::Float(value) => float(value, text(bits, self.dtype)),
            Number::Whole(_) => text(bits, self.dtype),
        }
    }

    /// Adds the texts of the elements from `first` on along an axis and the axes behind it, and those between them.
    fn add_pieces(&self, all: bool, axis: usize, first: usize, pieces: &mut Vec<Piece>) {
        let Some(length) = self.shape.get(axis).map(|length| *length as usize) else {
            return pieces.push(Piece::Element(self.element(first)));
        };
        let step = self.shape[axis + 1..].iter().product::<u64>() as usize;
        let comma = match axis + 1 == self.shape.len() {
            true => ", ".to_owned(),
            false => format!(",\n{:indent$}", "", indent = axis + 1),
        };
        let omitted = match all || length <= 2 * EDGE {
            true => length..length,
            false => EDGE..length - EDGE,
        };
        pieces.push(Piece::Between("[".to_owned()));
        for index in (0..length).filter(|index| !omitted.contains(index) || *index == omitted.start)
        {
            if index > 0 {
                pieces.push(Piece::Between(comma.clone()));
            }
            match omitted.contains(&index) {
                true => pieces.push(Piece::Between("...".to_owned())),
                false => self.add_pieces(all, axis + 1, first + index * step, pieces),
            }
        }
        pieces.push(Piece::Between("]".to_owned()));
    }
}

/// Returns a float as text, always with a point or an exponent.
fn float(value: f64, text: String) -> String {
    match value {
        _ if value.is_nan() => "nan".to_owned(),
        _ if value.is_infinite() && value > 0.0 => "inf".to_owned(),
        _ if value.is_infinite() => "-inf".to_owned(),
        _ if value != 0.0 && !(1e-4..1e16).contains(&value.abs()) => format!("{value:e}"),
        _ if text.contains(['.', 'e']) => text,
        _ => format!("{text}.0"),
    }
}

/// A part of a printed tensor.
enum Piece {
    /// An element: all of them are as wide as the widest.
    Element(String),
    Between(String),
}

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.shape.iter().product::<u64>() as usize;
        let mut pieces = Vec::new();
        self.add_pieces(count <= PRINTED, 0, 0, &mut pieces);
        let widths = pieces.iter().map(|piece| match piece {
            Piece::Element(text) => text.len(),
            Piece::Between(_) => 0,
        });
        let width = widths.max().unwrap_or(0);
        pieces.iter().try_for_each(|piece| match piece {
            Piece::Element(text) => write!(f, "{text:>width$}"),
            Piece::Between(text) => f.write_str(text),
        })
    }
}

// The outputs of a run.

/// The outputs of a run: a slice with one buffer for each root, in order.
#[derive(Clone, Debug)]
pub struct Outputs {
    pub(super) all: SmallVec<[Output; 1]>,
}

/// The buffer of a root, dense, in row-major order.
#[derive(Clone, Debug)]
pub struct Output {
    pub(super) handle: Handle<u8>,
    pub(super) dtype: DType,
    pub(super) shape: SmallVec<[u64; 4]>,
}

impl std::ops::Deref for Outputs {
    type Target = [Output];

    fn deref(&self) -> &[Output] {
        &self.all
    }
}

impl Output {
    /// Returns the memory as bytes.
    pub fn bytes(&self) -> &Handle<u8> {
        &self.handle
    }

    /// Returns the memory as elements of its type. Any buffer can be returned as bytes.
    ///
    /// # Errors
    /// [`ScheduleError::Elements`] if `T` is neither the element type nor `u8`.
    pub fn handle<T: Element>(&self) -> Result<Handle<T>, ScheduleError> {
        check_elements::<T>(self.dtype, || "an output".to_owned())?;
        let cast = self.handle.cast::<T>();
        cast.map_err(|why| ScheduleError::Device(why.of("run").into()))
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the lengths in this run.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Reads the elements. Any buffer can be read as bytes.
    ///
    /// # Errors
    /// [`ScheduleError::Elements`] if `T` is neither the element type nor `u8`.
    pub fn read<T: Element>(&self, stream: &Stream) -> Result<Pending<Vec<T>>, ScheduleError> {
        Ok(stream.read(&self.handle::<T>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor<T: Element>(shape: &[u64], values: &[T]) -> Tensor {
        Tensor {
            dtype: T::DTYPE,
            shape: shape.to_vec(),
            bytes: bytemuck::cast_slice(values).to_vec(),
        }
    }

    #[test]
    fn tensors_print_as_nested_rows_with_aligned_columns() {
        let floats = tensor(&[2, 2], &[1.0_f32, -2.5, f32::NAN, f32::NEG_INFINITY]);
        assert_eq!(floats.to_string(), "[[ 1.0, -2.5],\n [ nan, -inf]]");
        assert_eq!(tensor(&[], &[7_i64]).to_string(), "7");
        assert_eq!(tensor::<i64>(&[0, 3], &[]).to_string(), "[]");
        assert_eq!(tensor::<i64>(&[2, 0], &[]).to_string(), "[[],\n []]");
        let deep = tensor(&[2, 1, 2], &[1_i32, 2, 3, 10]);
        assert_eq!(deep.to_string(), "[[[ 1,  2]],\n [[ 3, 10]]]");
        assert_eq!(tensor(&[2], &[1e-9_f64, 3.0]).to_string(), "[1e-9,  3.0]");
    }

    #[test]
    fn long_tensors_print_their_ends() {
        let all: Vec<i64> = (0..2000).collect();
        assert_eq!(
            tensor(&[2000], &all).to_string(),
            "[   0,    1,    2, ..., 1997, 1998, 1999]"
        );
    }
}

//! Nodes without operands: inputs, buffers, constants, scalars, lengths, indices and random numbers.

use std::sync::Arc;

use millstream_client::handle::Handle;
use millstream_ir::DType;
use millstream_protocol::Element;

use crate::error::{By, why};
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::graph::{Graph, axis_of};
use crate::lazy::node::Op;
use crate::lazy::scalar::Scalar;
use crate::literal::Literal;
use crate::shape::Shape;
use crate::size::{Size, Symbol};

impl Graph {
    /// Adds an input, which each run binds: dense, in row-major order.
    #[track_caller]
    pub fn input(
        &self,
        name: impl Into<Arc<str>>,
        dtype: DType,
        shape: impl Into<Shape>,
    ) -> LazyBuffer {
        self.leaf(Op::Input(name.into()), dtype, shape.into())
    }

    /// Adds an existing buffer: dense, in row-major order. A run may bind another.
    #[track_caller]
    pub fn buffer<T: Element>(&self, handle: &Handle<T>, shape: impl Into<Shape>) -> LazyBuffer {
        self.buffer_as(handle, T::DTYPE, shape)
    }

    /// Adds an existing buffer with elements of a type that has no Rust type, for example `bool` in bytes.
    #[track_caller]
    pub fn buffer_as<T: Element>(
        &self,
        handle: &Handle<T>,
        dtype: DType,
        shape: impl Into<Shape>,
    ) -> LazyBuffer {
        let shape = shape.into();
        let elements = shape.known().and_then(|lengths| {
            let product = |all: u64, length| all.checked_mul(length);
            lengths.into_iter().try_fold(dtype.size() as u64, product)
        });
        let symbol = shape.iter().flat_map(Size::symbols).next();
        let why = match (elements, symbol) {
            (Some(expected), _) if expected != handle.size() => format!(
                "expected a handle of {expected} bytes, got {}: pass one of that size, or another shape",
                handle.size()
            )
            .into(),
            (Some(_), _) => match handle.cast::<u8>() {
                Ok(bytes) => return self.leaf(Op::Buffer(bytes), dtype, shape),
                Err(why) => why.to_string().into(),
            },
            (None, None) => why::TOO_LARGE,
            (None, Some(symbol)) => format!(
                "the length depends on the symbol `{}`: use a known length, or an `input`",
                symbol.name()
            )
            .into(),
        };
        LazyBuffer::refused(By::new("buffer"), [(dtype, shape)], why)
    }

    /// Adds a number, without axes.
    #[track_caller]
    pub fn constant(&self, dtype: DType, value: impl Into<Literal>) -> LazyBuffer {
        let value = value.into();
        match value.bits(dtype) {
            Some(bits) => self.leaf(Op::Const(bits), dtype, Shape::scalar()),
            None => LazyBuffer::refused(By::new("constant"), [], why::literal(value, dtype)),
        }
    }

    /// Adds a buffer of this shape, filled with a number.
    #[track_caller]
    pub fn full(
        &self,
        dtype: DType,
        shape: impl Into<Shape>,
        value: impl Into<Literal>,
    ) -> LazyBuffer {
        let full = self.constant(dtype, value).broadcast_to(shape);
        full.named(By::new("full"), &[])
    }

    /// Adds a buffer of this shape, filled with zeros.
    #[track_caller]
    pub fn zeros(&self, dtype: DType, shape: impl Into<Shape>) -> LazyBuffer {
        let zero = if dtype == DType::Bool {
            Literal::Bool(false)
        } else {
            Literal::Int(0)
        };
        let zeros = self.full(dtype, shape, zero);
        zeros.named(By::new("zeros"), &[])
    }

    /// Adds a number that runs may set, with a default. The lazy buffer has no axes.
    #[track_caller]
    pub fn scalar(
        &self,
        name: impl Into<String>,
        dtype: DType,
        value: impl Into<Literal>,
    ) -> (Scalar, LazyBuffer) {
        let value = value.into();
        let bits = value.bits(dtype);
        let scalar = Scalar::new(name, dtype, bits.unwrap_or(0));
        let buffer = match bits {
            Some(_) => self.leaf(Op::Scalar(scalar.clone()), dtype, Shape::scalar()),
            None => LazyBuffer::refused(By::new("scalar"), [], why::literal(value, dtype)),
        };
        (scalar, buffer)
    }

    /// Adds a length of at most `max` that each run sets. Use it in shapes and ranges.
    pub fn length(&self, name: impl Into<String>, max: u64) -> Symbol {
        Symbol::new(name, max)
    }

    /// Returns the value of a length in a run, as `i64` without axes.
    #[track_caller]
    pub fn length_value(&self, length: impl Into<Size>) -> LazyBuffer {
        self.leaf(Op::Length(length.into()), DType::I64, Shape::scalar())
    }

    /// Returns the index along one axis of a shape, as `i64`.
    #[track_caller]
    pub fn index(&self, shape: impl Into<Shape>, axis: isize) -> LazyBuffer {
        let shape = shape.into();
        match axis_of(axis, shape.rank()) {
            Ok(axis) => self.leaf(Op::Index(axis), DType::I64, shape),
            Err(why) => LazyBuffer::refused(By::new("index"), [], why),
        }
    }

    /// Returns the numbers `0..len`, as `i64`.
    #[track_caller]
    pub fn iota(&self, len: impl Into<Size>) -> LazyBuffer {
        let iota = self.index(Shape::new([len.into()]), 0);
        iota.named(By::new("iota"), &[])
    }

    /// Returns 32 random bits for each element: Philox4x32-10 with the seed as key and the flat index as counter. So a
    /// seed gives the same numbers on every device and in every order. A run may set the seed.
    #[track_caller]
    pub fn random_bits(&self, shape: impl Into<Shape>, seed: u64) -> (Scalar, LazyBuffer) {
        let seed = Scalar::new("seed", DType::U64, seed);
        let bits = self.leaf(Op::Random(seed.clone()), DType::U32, shape.into());
        (seed, bits.named(By::new("random_bits"), &[]))
    }

    /// Returns random floats in `0.0..1.0`: the upper 24 bits of [`Graph::random_bits`].
    #[track_caller]
    pub fn uniform(&self, shape: impl Into<Shape>, seed: u64) -> (Scalar, LazyBuffer) {
        let (seed, bits) = self.random_bits(shape, seed);
        // An exact integer division drops the low bits.
        let upper = (&bits / 256_u32).cast(DType::F32);
        let numbers = upper * (1.0 / 16_777_216.0);
        (seed, numbers.named(By::new("uniform"), &[]))
    }

    /// Returns random floats of the standard normal distribution, of `f32`: pairs of [`Graph::random_bits`] by the
    /// Box-Muller transform.
    #[track_caller]
    pub fn normal(&self, shape: impl Into<Shape>, seed: u64) -> (Scalar, LazyBuffer) {
        let shape = shape.into();
        let Some(count) = shape.elements() else {
            let operand = (DType::F32, shape);
            let refused = LazyBuffer::refused(By::new("normal"), [operand], why::TOO_LARGE);
            return (Scalar::new("seed", DType::U64, seed), refused);
        };
        let (seed, bits) = self.random_bits([count, Size::from(2)], seed);
        let upper = (&bits / 256_u32).cast(DType::F32);
        // The argument is in (0, 1], so its logarithm is finite.
        let radius = ((upper.narrow(1, 0, 1) + 1.0) * (1.0 / 16_777_216.0)).log() * -2.0;
        let angle = upper.narrow(1, 1, 1) * (std::f64::consts::TAU / 16_777_216.0);
        let numbers = (radius.sqrt() * angle.cos()).reshape(shape);
        (seed, numbers.named(By::new("normal"), &[]))
    }

    #[track_caller]
    fn leaf(&self, op: Op, dtype: DType, shape: Shape) -> LazyBuffer {
        LazyBuffer::leaf(self, By::new(op.name()), op, dtype, shape)
    }
}

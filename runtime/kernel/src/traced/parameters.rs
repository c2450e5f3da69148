//! The parameters of a kernel.

use millstream_ir::nest::BufferMode;
use millstream_ir::{CompareOp, DType};

use super::{Buffer, Tracer, V, len};
use crate::number::{Number, Scalar};

impl<'k> Tracer<'k> {
    /// Adds a buffer.
    pub fn buffer<T: Number>(self, name: &str, mode: BufferMode) -> Buffer<'k, T> {
        Buffer::new(self.builder.param(name, T::DTYPE, mode))
    }

    /// Adds a scalar.
    pub fn scalar<T: Scalar>(self, name: &str) -> V<'k, T> {
        // A launch passes a `bool` as a byte.
        if T::DTYPE == DType::Bool {
            return V::new(
                self.builder
                    .scalar(name, DType::U8)
                    .compare(CompareOp::Ne, 0),
            );
        }
        V::new(self.builder.scalar(name, T::DTYPE))
    }

    /// Adds the length of a buffer.
    pub fn length<T: Number>(self, buffer: Buffer<'k, T>) {
        len(self, buffer);
    }

    /// Adds the number of threads of a launch.
    pub fn threads(self) -> V<'k, usize> {
        V::new(self.builder.scalar("__threads", DType::U64))
    }
}

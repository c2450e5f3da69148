//! Numbers that runs may set without compiling anything again.

use std::sync::Arc;

use millstream_ir::DType;

use crate::literal::Literal;
use crate::size::{Size, Symbol};

/// A named number of a graph, with a default value.
#[derive(Clone, Debug)]
pub struct Scalar(Arc<ScalarInfo>);

#[derive(Debug)]
struct ScalarInfo {
    name: String,
    dtype: DType,
    bits: u64,
}

impl Scalar {
    pub(crate) fn new(name: impl Into<String>, dtype: DType, bits: u64) -> Self {
        let name = name.into();
        Self(Arc::new(ScalarInfo { name, dtype, bits }))
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the type.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Returns the bits of the default value.
    pub(crate) fn bits(&self) -> u64 {
        self.0.bits
    }

    /// Returns the identity of the scalar. Scalars of equal name have different keys.
    pub(crate) fn key(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}

/// A launch word before a run.
#[derive(Clone, Debug)]
pub(crate) enum WordValue {
    /// A length, stride or offset.
    Size(Size),
    /// A number.
    Bits(u64),
    /// A number that runs may set.
    Scalar(Scalar),
}

/// A scalar argument of a kernel: a number, or one that each run sets.
#[derive(Clone, Debug)]
pub enum CallScalar {
    /// A number.
    Number(Literal),
    /// A scalar of the graph, of the type that the kernel declares.
    Scalar(Scalar),
    /// A length, for a kernel that declares an `i64`.
    Size(Size),
}

impl<L: Into<Literal>> From<L> for CallScalar {
    fn from(number: L) -> Self {
        CallScalar::Number(number.into())
    }
}

impl From<&Scalar> for CallScalar {
    fn from(scalar: &Scalar) -> Self {
        CallScalar::Scalar(scalar.clone())
    }
}

impl From<&Symbol> for CallScalar {
    fn from(symbol: &Symbol) -> Self {
        CallScalar::Size(symbol.into())
    }
}

impl From<Size> for CallScalar {
    fn from(size: Size) -> Self {
        CallScalar::Size(size)
    }
}

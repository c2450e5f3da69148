//! Numbers that runs may change without compiling anything again.

use std::sync::Arc;

use millstream_ir::DType;

/// A named number of a graph, with the value that it has unless a run says otherwise.
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

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its type.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// The bits of its value, unless a run says otherwise.
    pub(crate) fn bits(&self) -> u64 {
        self.0.bits
    }

    /// What tells it from others, of whatever name.
    pub(crate) fn key(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}

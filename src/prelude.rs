//! What a program with kernels of its own needs: `use millstream::prelude::*`.

pub use crate::{Device, Handle, Stream, kernel, open_any};
pub use millstream_kernel::number::{Float, Int, Number};

//! What a program with kernels of its own needs: `use millstream::prelude::*`.

pub use crate::{Device, Float, Handle, Int, Number, Stream, kernel, open_any};

//! Kernels as Rust functions: what the code that the macro `#[kernel]` writes calls.
//!
//! | module | contents |
//! | --- | --- |
//! | [`number`] | the numbers that kernels compute with |
//! | [`parameter`] | what a launch passes beside buffers |
//! | [`plain`] | the kernel as plain Rust, for the CPU |
//! | [`traced`] | the kernel as a program, for all other devices |
//! | `value` | what programs are built of: values, variables, elements |
//! | [`call`] | typed launches |
//! | `integers`, `math` | functions of integers and floats that are composed of others |

// The path in what `#[kernel]` writes, for the helper functions of this crate.
extern crate self as millstream;

pub mod call;
mod integers;
mod math;
pub mod number;
pub mod parameter;
pub mod plain;
pub mod traced;
mod value;

pub use millstream_kernel_macros::kernel;

// What the macro writes names them.
#[doc(hidden)]
pub use millstream_ir::DType;
#[doc(hidden)]
pub use millstream_protocol::{NativeArgs, Stored, bytemuck};

#[doc(hidden)]
pub mod __kernel {
    pub use crate::{DType, NativeArgs, Stored, bytemuck, call, number, plain, traced};
}

//! A fake cuBLASLt for tests, without a GPU.
//!
//! Like the real library, it performs a product by launching a kernel through the driver of the process, on the stream
//! that the caller passes. With the fake driver the kernel is interpreted, and the fake driver checks races and
//! lifetimes. Invalid descriptors are refused with the status that NVIDIA's documentation specifies.
//!
//! | module | contents |
//! | --- | --- |
//! | `calls` | the library's functions |
//! | `descriptors` | operations, layouts and preferences, and the check that they match |
//! | `kernel` | the product as PTX, and the driver's functions |
//! | `controls` | [`Lt`]: the controls for tests |
//!
//! Not modelled: any order but column-major, epilogues, scales, types other than the four floats, and factors other
//! than one and zero.

#![allow(
    non_snake_case,
    reason = "the library and its functions have NVIDIA's names"
)]

mod calls;
mod controls;
mod descriptors;
mod kernel;

pub use controls::Lt;

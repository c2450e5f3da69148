//! cuBLASLt for tests, without a GPU.
//!
//! It knows no more of a GPU than the real one: it does a product by launching a kernel through the driver that the process has, on
//! the stream that it is given. Beside the fake driver that kernel is interpreted, and all checks of races and lives are its own.
//! What is described wrongly is refused with the status that NVIDIA's documentation names.
//!
//! | module | what |
//! | --- | --- |
//! | `calls` | the library's functions |
//! | `described` | what they make: operations, layouts, preferences, and whether these fit |
//! | `kernel` | the product as PTX, and the driver's functions |
//! | `controls` | [`Lt`]: what a test says and asks |
//!
//! Not modelled: any order but column by column, epilogues, scales, types beside the four floats, factors but one and zero.

#![allow(
    non_snake_case,
    reason = "the library and its functions have the names of NVIDIA's"
)]

mod calls;
mod controls;
mod described;
mod kernel;

pub use controls::Lt;

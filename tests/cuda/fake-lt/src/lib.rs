//! A fake cuBLASLt for tests, without a GPU.
//!
//! Like the real library, it performs a product on the stream that the caller passes: as an operation in native code of
//! the loaded driver, which must be the fake one and checks races and lifetimes. Invalid descriptors are refused with the status that NVIDIA's documentation specifies.
//!
//! | module | contents |
//! | --- | --- |
//! | `calls` | the library's functions |
//! | `descriptors` | operations, layouts and preferences, and the check that they match |
//! | `product` | the product, as an operation of the fake driver |
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
#[path = "../../fake/src/loaded.rs"]
mod loaded;
mod product;

pub use controls::Lt;

//! The loops: each operation on a tile, for every type and level.
//!
//! | module | contents |
//! | --- | --- |
//! | `map` | element-wise operations of one, two or three values |
//! | `function` | functions of one value |
//! | `power` | powers |
//! | `cast` | casts between types |
//! | `reduce` | reductions of many elements to one |
//! | `arg` | the index of the least or greatest element |
//! | `reducers` | the loops of each reduction |
//! | `place` | copies, gathers and scatters |
//! | `random` | Philox4x32-10 |
//!
//! An operand is a tile or a *scalar*: one element that stands for a whole tile.

mod arg;
pub(crate) mod cast;
pub(crate) mod function;
pub(crate) mod map;
pub(crate) mod place;
mod power;
pub(crate) mod random;
pub(crate) mod reduce;
pub(crate) mod reducers;

use std::slice::{from_raw_parts, from_raw_parts_mut};

/// Expands to `$body` with `$t` as the type that values of a type are computed in, or to `$else` for halves, which
/// are not.
macro_rules! with_type {
    ($dtype:expr, $t:ident => $body:expr, else $else:expr) => {
        match $dtype {
            DType::F64 => {
                type $t = f64;
                $body
            }
            DType::F32 => {
                type $t = f32;
                $body
            }
            dtype => $crate::kernels::with_bits!(dtype, $t => $body, else $else),
        }
    };
}

/// As `with_type`, for the types with bitwise operations.
macro_rules! with_bits {
    ($dtype:expr, $t:ident => $body:expr, else $else:expr) => {
        match $dtype {
            DType::I64 => {
                type $t = i64;
                $body
            }
            DType::U64 => {
                type $t = u64;
                $body
            }
            DType::I32 => {
                type $t = i32;
                $body
            }
            DType::U32 => {
                type $t = u32;
                $body
            }
            DType::I16 => {
                type $t = i16;
                $body
            }
            DType::U16 => {
                type $t = u16;
                $body
            }
            DType::I8 => {
                type $t = i8;
                $body
            }
            // A boolean is one byte, 0 or 1.
            DType::U8 | DType::Bool => {
                type $t = u8;
                $body
            }
            _ => $else,
        }
    };
}

pub(crate) use {with_bits, with_type};

/// Returns memory that a kernel reads as a slice.
///
/// # Safety
/// As [`crate::level::Kernel`] says.
#[inline(always)]
unsafe fn tile<'a, T>(from: *const u8, n: usize) -> &'a [T] {
    // SAFETY: the caller's promise.
    unsafe { from_raw_parts(from.cast(), n) }
}

/// Returns memory that a kernel writes as a slice.
///
/// # Safety
/// As [`crate::level::Kernel`] says.
#[inline(always)]
unsafe fn tile_mut<'a, T>(to: *mut u8, n: usize) -> &'a mut [T] {
    // SAFETY: the caller's promise.
    unsafe { from_raw_parts_mut(to.cast(), n) }
}

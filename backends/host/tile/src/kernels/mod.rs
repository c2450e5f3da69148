//! The loops: what each operation does to a tile, for every type and level.
//!
//! | module | which |
//! | --- | --- |
//! | `map` | one, two or three values in, one out |
//! | `function` | one value in, by a function of its own |
//! | `power` | two values in, one to the power of the other |
//! | `cast` | between types |
//! | `reduce` | many elements in, one out |
//! | `arg` | many elements in, the place of one out |
//! | `reducers` | the loops of each reduction |
//! | `place` | elements moved, gathered and scattered |
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

/// Does `$body` with `$t` as the type that values of a type are computed in; with `$else` for halves, which are not.
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

/// As `with_type`, of the types with bits.
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
            DType::U8 => {
                type $t = u8;
                $body
            }
            DType::Bool => {
                type $t = crate::number::Truth;
                $body
            }
            _ => $else,
        }
    };
}

pub(crate) use {with_bits, with_type};

/// What a kernel reads, as a slice.
///
/// # Safety
/// As [`crate::level::Kernel`] says.
#[inline(always)]
unsafe fn tile<'a, T>(from: *const u8, n: usize) -> &'a [T] {
    // SAFETY: the caller's promise.
    unsafe { from_raw_parts(from.cast(), n) }
}

/// What a kernel writes, as a slice.
///
/// # Safety
/// As [`crate::level::Kernel`] says.
#[inline(always)]
unsafe fn tile_mut<'a, T>(to: *mut u8, n: usize) -> &'a mut [T] {
    // SAFETY: the caller's promise.
    unsafe { from_raw_parts_mut(to.cast(), n) }
}

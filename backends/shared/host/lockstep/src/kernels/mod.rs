//! The loops: each operation over the threads of a chunk.
//!
//! Each loop is compiled once, for the usual level of processors, because a default build contains all of them. Of
//! operations that commute, only the second operand may be a scalar; integers of one size share what does not depend on
//! their sign; operations that programs rarely have on small integers have no loop. Where there is none, and on a processor
//! below that level, the machine calls the [reference](millstream_ir::scalar) for each thread.
//!
//! | module | contents |
//! | --- | --- |
//! | `map` | operations on one, two or three values |
//! | `cast` | casts |
//! | `fold` | reductions |
//! | `place` | fills, ramps, rows, masks, bounds |
//! | `product` | sums of products |

mod cast;
mod fold;
mod map;
mod place;
mod product;

pub(crate) use cast::cast;
pub(crate) use fold::{fold, trees};
pub(crate) use map::{Choice, advance, binary, compare, fma, random, select, unary};
pub(crate) use millstream_loops::level::Kernel;
pub(crate) use place::{Bounded, Counted, blend, bounds, fill, masks, ramp, rows};
pub(crate) use product::{Factors, mul_add};

/// Matches a value: expands to `$body` with `$t` as the type of the pattern that fits, or to `$else`.
macro_rules! match_type {
    ($value:expr, $t:ident => $body:expr; $($pattern:pat => $rust:ty),* $(; else $else:expr)?) => {
        match $value {
            $($pattern => {
                type $t = $rust;
                $body
            })*
            $(_ => $else,)?
        }
    };
}

/// The bits of elements of a size.
macro_rules! by_size {
    ($size:expr, $t:ident => $body:expr) => {
        $crate::kernels::match_type!($size, $t => $body; 1 => u8, 2 => u16, 4 => u32, _ => u64)
    };
}

/// Floats, and integers of each size as unsigned ones.
macro_rules! with_size {
    ($dtype:expr, $t:ident => $body:expr) => {
        $crate::kernels::match_type!($dtype, $t => $body;
            DType::F64 => f64, DType::F32 => f32, DType::I64 | DType::U64 => u64, DType::I32 | DType::U32 => u32,
            DType::I16 | DType::U16 => u16, DType::I8 | DType::U8 | DType::Bool => u8; else return None)
    };
}

/// Floats and all integers.
macro_rules! with_number {
    ($dtype:expr, $t:ident => $body:expr) => {
        $crate::kernels::match_type!($dtype, $t => $body;
            DType::F64 => f64, DType::F32 => f32, DType::I64 => i64, DType::U64 => u64,
            DType::I32 => i32, DType::U32 => u32, DType::I16 => i16, DType::U16 => u16,
            DType::I8 => i8, DType::U8 | DType::Bool => u8; else return None)
    };
}

/// Integers of 4 and 8 bytes.
macro_rules! with_long {
    ($dtype:expr, $t:ident => $body:expr) => {
        $crate::kernels::match_type!($dtype, $t => $body;
            DType::I64 => i64, DType::U64 => u64, DType::I32 => i32, DType::U32 => u32; else return None)
    };
}

use {by_size, match_type, with_long, with_number, with_size};

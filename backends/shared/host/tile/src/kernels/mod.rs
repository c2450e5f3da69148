//! The loops: each operation on a tile, for every type and level.
//!
//! | module | contents |
//! | --- | --- |
//! | `map` | element-wise operations of one, two or three values |
//! | `function` | functions of floats; Philox4x32-10 |
//! | `cast` | casts between types |
//! | `reduce` | reductions of many elements to one |
//! | `arg` | the index of the least or greatest element |
//! | `place` | copies, gathers and scatters |
//!
//! [`millstream_loops::operation`] has the operations.

mod arg;
pub(crate) mod cast;
pub(crate) mod function;
pub(crate) mod map;
pub(crate) mod place;
pub(crate) mod reduce;

use millstream_ir::{DType, ReduceOp, scalar};
pub(crate) use millstream_loops::operation::{tile, tile_mut};
use reduce::{Greatest, Least, Prod, Reducer, Sum};

use millstream_loops::level::Level;

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

/// The type that values of a type are computed in, or `$else` for halves, which are not.
macro_rules! with_type {
    ($dtype:expr, $t:ident => $body:expr, else $else:expr) => {
        $crate::kernels::match_type!($dtype, $t => $body;
            DType::F64 => f64, DType::F32 => f32, DType::I64 => i64, DType::U64 => u64,
            DType::I32 => i32, DType::U32 => u32, DType::I16 => i16, DType::U16 => u16,
            DType::I8 => i8, DType::U8 | DType::Bool => u8; else $else)
    };
}

/// As `with_type`, for the types with bitwise operations.
macro_rules! with_bits {
    ($dtype:expr, $t:ident => $body:expr, else $else:expr) => {
        $crate::kernels::match_type!($dtype, $t => $body;
            DType::I64 => i64, DType::U64 => u64, DType::I32 => i32, DType::U32 => u32,
            DType::I16 => i16, DType::U16 => u16, DType::I8 => i8, DType::U8 | DType::Bool => u8;
            else $else)
    };
}

/// The bits of elements of a size.
macro_rules! by_size {
    ($size:expr, $t:ident => $body:expr) => {
        $crate::kernels::match_type!($size, $t => $body; 1 => u8, 2 => u16, 4 => u32, _ => u64)
    };
}

pub(crate) use {by_size, match_type, with_bits, with_type};

/// Returns the loops of a reduction, if the element type has it.
pub(crate) fn reducer(op: ReduceOp, dtype: DType, level: Level) -> Option<Reducer> {
    let neutral = match (op, dtype) {
        // Sums and products of these are accumulated as `f64`.
        (ReduceOp::Sum | ReduceOp::Prod, DType::F32) => scalar::neutral(op, DType::F64),
        _ => scalar::neutral(op, dtype),
    };
    Some(with_type!(dtype, T => match op {
        ReduceOp::Sum => reduce::of::<T, Sum>(neutral, level),
        // A product of several elements of `f32` loses more precision than a sum.
        ReduceOp::Prod => Reducer { stack: None, ..reduce::of::<T, Prod>(neutral, level) },
        ReduceOp::Min => reduce::of::<T, Least>(neutral, level),
        ReduceOp::Max => reduce::of::<T, Greatest>(neutral, level),
        ReduceOp::ArgMin => return arg::reducer::<T, Least>(level),
        ReduceOp::ArgMax => return arg::reducer::<T, Greatest>(level),
        _ => return None,
    }, else return None))
}

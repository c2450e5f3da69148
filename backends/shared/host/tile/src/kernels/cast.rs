//! The loops of casts.

use half::bf16;
use millstream_ir::DType;
use millstream_loops::cast::To;
use millstream_loops::half::F16;
use millstream_loops::level::{Kernel, Level};
use millstream_loops::truth::Truth;

use super::map::map1;
use super::match_type;

macro_rules! with_stored {
    ($dtype:expr, $t:ident => $body:expr) => {
        match_type!($dtype, $t => $body;
            DType::F64 => f64, DType::F32 => f32, DType::F16 => F16, DType::Bf16 => bf16,
            DType::I64 => i64, DType::U64 => u64, DType::I32 => i32, DType::U32 => u32,
            DType::I16 => i16, DType::U16 => u16, DType::I8 => i8, DType::U8 => u8,
            DType::Bool => Truth; else return None)
    };
}

/// Returns the loop of a cast, if there is one.
pub(crate) fn cast(from: DType, to: DType, level: Level) -> Option<Kernel> {
    Some(with_stored!(from, T => with_stored!(to, U => map1::<T, To<U>>(level))))
}

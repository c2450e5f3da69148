//! Casts: one or two loops each, or none.

use millstream_ir::DType;
use millstream_loops::cast::{Cast, To};
use millstream_loops::half::{F16, bf16};
use millstream_loops::level::{Kernel, Level, usual_kernel};
use millstream_loops::operation::Map;

use super::match_type;

/// The loops of a cast, and the type of the result of each, in order. None if the bits remain.
pub(crate) type Casts = Vec<(Kernel, DType)>;

fn to<T: Cast<U>, U>(level: Level) -> Option<Kernel> {
    usual_kernel::<Map<T, To<U>, false, true>>(level)
}

/// Returns the loops of a cast; `None` if only the reference has it. Not to `bool`: that is a comparison with zero.
pub(crate) fn cast(from: DType, target: DType, level: Level) -> Option<Casts> {
    let from = if from == DType::Bool { DType::U8 } else { from };
    let through = |by: DType| {
        let mut casts = cast(from, by, level)?;
        casts.extend(cast(by, target, level)?);
        Some(casts)
    };
    let is_half = |dtype: DType| dtype.computed() != dtype;
    if from == target {
        return Some(Vec::new());
    }
    if !from.is_float() && !target.is_float() {
        return whole(from, target, level);
    }
    let run = match (from, target) {
        (DType::F32, DType::F16) => to::<f32, F16>(level),
        (DType::F32, DType::Bf16) => to::<f32, bf16>(level),
        (DType::F16, DType::F32) => to::<F16, f32>(level),
        (DType::Bf16, DType::F32) => to::<bf16, f32>(level),
        // A half is exact as `f32`.
        (from, _) if is_half(from) => return through(DType::F32),
        // As are integers of at most 16 bits. Others would be rounded twice.
        (from, to) if is_half(to) => {
            return match from.size() <= 2 {
                true => through(DType::F32),
                false => None,
            };
        }
        (from, _) if from.size() <= 2 => return through(DType::I32),
        (DType::F64, _) => match_type!(target, U => to::<f64, U>(level);
            DType::F32 => f32, DType::I64 => i64, DType::U64 => u64, DType::I32 => i32, DType::U32 => u32,
            DType::I16 => i16, DType::U16 => u16, DType::I8 => i8, DType::U8 => u8; else None),
        (DType::F32, _) => match_type!(target, U => to::<f32, U>(level);
            DType::F64 => f64, DType::I64 => i64, DType::U64 => u64, DType::I32 => i32, DType::U32 => u32,
            DType::I16 => i16, DType::U16 => u16, DType::I8 => i8, DType::U8 => u8; else None),
        (_, DType::F64) => match_type!(from, T => to::<T, f64>(level);
            DType::I64 => i64, DType::U64 => u64, DType::I32 => i32, DType::U32 => u32; else None),
        _ => match_type!(from, T => to::<T, f32>(level);
            DType::I64 => i64, DType::U64 => u64, DType::I32 => i32, DType::U32 => u32; else None),
    };
    Some(vec![(run?, target)])
}

/// Returns the loop of a cast among integers: the sign matters only for what is extended.
fn whole(from: DType, target: DType, level: Level) -> Option<Casts> {
    let run = match (from.size(), target.size(), from.is_signed()) {
        (8, 4, _) => to::<u64, u32>(level),
        (8, 2, _) => to::<u64, u16>(level),
        (8, 1, _) => to::<u64, u8>(level),
        (4, 2, _) => to::<u32, u16>(level),
        (4, 1, _) => to::<u32, u8>(level),
        (2, 1, _) => to::<u16, u8>(level),
        (1, 2, true) => to::<i8, i16>(level),
        (1, 4, true) => to::<i8, i32>(level),
        (1, 8, true) => to::<i8, i64>(level),
        (2, 4, true) => to::<i16, i32>(level),
        (2, 8, true) => to::<i16, i64>(level),
        (4, 8, true) => to::<i32, i64>(level),
        (1, 2, false) => to::<u8, u16>(level),
        (1, 4, false) => to::<u8, u32>(level),
        (1, 8, false) => to::<u8, u64>(level),
        (2, 4, false) => to::<u16, u32>(level),
        (2, 8, false) => to::<u16, u64>(level),
        (4, 8, false) => to::<u32, u64>(level),
        _ => return Some(Vec::new()),
    };
    Some(vec![(run?, target)])
}

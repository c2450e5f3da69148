//! The loops of each reduction, by operation and element type.

use millstream_ir::{DType, ReduceOp, scalar};

use super::reduce::{Greatest, Least, Prod, Reducer, Sum, of};
use super::{arg, with_type};
use crate::level::Level;

/// Returns the loops of a reduction, if the element type has it.
pub(crate) fn reducer(op: ReduceOp, dtype: DType, level: Level) -> Option<Reducer> {
    let neutral = match (op, dtype) {
        // Sums and products of these are accumulated as `f64`.
        (ReduceOp::Sum | ReduceOp::Prod, DType::F32) => scalar::neutral(op, DType::F64),
        _ => scalar::neutral(op, dtype),
    };
    Some(with_type!(dtype, T => match op {
        ReduceOp::Sum => of::<T, Sum>(neutral, level),
        // A product of several elements of `f32` loses more precision than a sum.
        ReduceOp::Prod => Reducer { stack: None, ..of::<T, Prod>(neutral, level) },
        ReduceOp::Min => of::<T, Least>(neutral, level),
        ReduceOp::Max => of::<T, Greatest>(neutral, level),
        ReduceOp::ArgMin => return arg::reducer::<T, Least>(level),
        ReduceOp::ArgMax => return arg::reducer::<T, Greatest>(level),
        _ => return None,
    }, else return None))
}

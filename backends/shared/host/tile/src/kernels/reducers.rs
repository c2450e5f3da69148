//! The loops of each reduction, by operation and element type.

use millstream_ir::{DType, ReduceOp};

use super::cast::cast;
use super::reduce::{Greatest, Least, Prod, Reducer, Sum, of};
use super::{arg, with_type};
use crate::level::Level;

/// Returns the loops of a reduction, if the element type has it.
pub(crate) fn reducer(op: ReduceOp, dtype: DType, level: Level) -> Option<Reducer> {
    Some(with_type!(dtype, T => match op {
        ReduceOp::Sum => of::<T, Sum>(level),
        // A product of several elements of `f32` loses more precision than a sum.
        ReduceOp::Prod => Reducer { stack: None, ..of::<T, Prod>(level) },
        // The least of no elements is true, not the greatest byte.
        ReduceOp::Min if dtype == DType::Bool => Reducer {
            end: cast(DType::U8, DType::Bool, level)?,
            ..of::<T, Least>(level)
        },
        ReduceOp::Min => of::<T, Least>(level),
        ReduceOp::Max => of::<T, Greatest>(level),
        ReduceOp::ArgMin => arg::reducer::<T, Least>(level),
        ReduceOp::ArgMax => arg::reducer::<T, Greatest>(level),
        _ => return None,
    }, else return None))
}

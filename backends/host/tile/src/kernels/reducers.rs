//! The loops of each reduction, by its operation and the type of its elements.

use millstream_ir::{DType, ReduceOp};

use super::reduce::{Greatest, Least, Prod, Reducer, Sum, of};
use super::{arg, with_type};
use crate::level::Level;

/// The loops of a reduction of elements of a type, if there are any.
pub(crate) fn reducer(op: ReduceOp, dtype: DType, level: Level) -> Option<Reducer> {
    Some(with_type!(dtype, T => match op {
        ReduceOp::Sum => of::<T, Sum>(level),
        // Products of several elements of `f32` lose more than sums.
        ReduceOp::Prod => Reducer { stack: None, ..of::<T, Prod>(level) },
        ReduceOp::Min => of::<T, Least>(level),
        ReduceOp::Max => of::<T, Greatest>(level),
        ReduceOp::ArgMin => arg::reducer::<T, Least>(level),
        ReduceOp::ArgMax => arg::reducer::<T, Greatest>(level),
        _ => return None,
    }, else return None))
}

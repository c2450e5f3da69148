//! Reductions of the threads of a cube or a row.

use std::marker::PhantomData;

use millstream_ir::scalar::arith::Number;
use millstream_ir::{DType, ReduceOp};
use millstream_loops::level::{Arithmetic, Kernel, Level, Loop, usual_kernel};
use millstream_loops::operation::{Add, Max, Min, Mul, Operation, tile};

use super::{match_type, with_long};

/// Partial results side by side: four vectors, which hide the latency of an operation. Element `i` belongs to number `i`
/// modulo this, so the order depends on the number of elements alone.
const SIDE_BY_SIDE: usize = 32;

/// Combines a column to one element.
struct Fold<T, O>(PhantomData<(T, O)>);

impl<T: Number, O: Operation<T, Out = T>> Loop for Fold<T, O> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, _: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller's promises.
        let a = unsafe { tile::<T>(a, n) };
        let combine = |a: T, b: T| O::of::<A>(a, b);
        let (blocks, rest) = a.as_chunks::<SIDE_BY_SIDE>();
        let folded = match blocks {
            [] => rest.iter().copied().reduce(combine),
            [first, blocks @ ..] => {
                let mut partial = *first;
                for block in blocks {
                    for (partial, value) in partial.iter_mut().zip(block) {
                        *partial = combine(*partial, *value);
                    }
                }
                for (partial, value) in partial.iter_mut().zip(rest) {
                    *partial = combine(*partial, *value);
                }
                let mut width = SIDE_BY_SIDE / 2;
                while width > 0 {
                    for lane in 0..width {
                        partial[lane] = combine(partial[lane], partial[lane + width]);
                    }
                    width /= 2;
                }
                Some(partial[0])
            }
        };
        // SAFETY: the caller's promises.
        unsafe { d.cast::<T>().write(folded.unwrap_or(T::ZERO)) };
    }
}

/// Returns the loop of a reduction to one element, if the type has one.
pub(crate) fn fold(op: ReduceOp, dtype: DType, level: Level) -> Option<Kernel> {
    fn of<T: Number, O: Operation<T, Out = T>>(level: Level) -> Option<Kernel> {
        usual_kernel::<Fold<T, O>>(level)
    }
    macro_rules! typed {
        ($op:ident) => {
            match dtype {
                DType::F32 => of::<f32, $op>(level),
                DType::F64 => of::<f64, $op>(level),
                _ => with_long!(dtype, T => of::<T, $op>(level)),
            }
        };
    }
    macro_rules! sized {
        ($op:ident) => {
            match_type!(dtype, T => of::<T, $op>(level);
                DType::F64 => f64, DType::F32 => f32, DType::I64 | DType::U64 => u64,
                DType::I32 | DType::U32 => u32; else None)
        };
    }
    match op {
        ReduceOp::Sum => sized!(Add),
        ReduceOp::Prod => sized!(Mul),
        ReduceOp::Min => typed!(Min),
        ReduceOp::Max => typed!(Max),
        _ => None,
    }
}

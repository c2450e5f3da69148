//! Reductions of the threads of a cube or a subgroup.

use std::marker::PhantomData;

use millstream_ir::scalar::arith::Number;
use millstream_ir::ssa::SUBGROUP_MAX;
use millstream_ir::{DType, ReduceOp};
use millstream_loops::level::{Arithmetic, Kernel, Level, Loop, usual_kernel};
use millstream_loops::operation::{Add, Max, Min, Mul, Operation, tile, tile_mut};

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

/// Combines the elements of each subgroup by a tree, as [`millstream_ir::ssa::reduced`], and writes the result to all of them.
/// `b` is the width of a subgroup, `usize`.
struct Trees<T, O>(PhantomData<(T, O)>);

impl<T: Number, O: Operation<T, Out = T>> Loop for Trees<T, O> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller's promises.
        let (d, a, width) = unsafe {
            (
                tile_mut::<T>(d, n),
                tile::<T>(a, n),
                b.cast::<usize>().read(),
            )
        };
        let subgroups = d.chunks_exact_mut(width).zip(a.chunks_exact(width));
        for (d, a) in subgroups {
            let mut values = [T::ZERO; SUBGROUP_MAX as usize];
            values[..width].copy_from_slice(a);
            let mut half = width / 2;
            while half > 0 {
                for lane in 0..half {
                    values[lane] = O::of::<A>(values[lane], values[lane + half]);
                }
                half /= 2;
            }
            d.fill(values[0]);
        }
    }
}

/// Returns the loop of a reduction, if the type has one. `$kind` is `Fold` or `Trees`.
macro_rules! reduction {
    ($kind:ident, $op:expr, $dtype:expr, $level:expr) => {{
        fn of<T: Number, O: Operation<T, Out = T>>(level: Level) -> Option<Kernel> {
            usual_kernel::<$kind<T, O>>(level)
        }
        macro_rules! typed {
                    ($by:ident) => {
                        match $dtype {
                            DType::F32 => of::<f32, $by>($level),
                            DType::F64 => of::<f64, $by>($level),
                            _ => with_long!($dtype, T => of::<T, $by>($level)),
                        }
                    };
                }
        macro_rules! sized {
                    ($by:ident) => {
                        match_type!($dtype, T => of::<T, $by>($level);
                            DType::F64 => f64, DType::F32 => f32, DType::I64 | DType::U64 => u64,
                            DType::I32 | DType::U32 => u32; else None)
                    };
                }
        match $op {
            ReduceOp::Sum => sized!(Add),
            ReduceOp::Prod => sized!(Mul),
            ReduceOp::Min => typed!(Min),
            ReduceOp::Max => typed!(Max),
            _ => None,
        }
    }};
}

/// Returns the loop of a reduction to one element, if the type has one.
pub(crate) fn fold(op: ReduceOp, dtype: DType, level: Level) -> Option<Kernel> {
    reduction!(Fold, op, dtype, level)
}

/// Returns the loop of a reduction of each subgroup, if the type has one.
pub(crate) fn trees(op: ReduceOp, dtype: DType, level: Level) -> Option<Kernel> {
    reduction!(Trees, op, dtype, level)
}

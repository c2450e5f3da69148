//! Operations on one, two or three values.

use std::marker::PhantomData;

use millstream_ir::scalar::arith::Number;
use millstream_ir::{BinaryOp, CompareOp, DType, UnaryOp, scalar};
use millstream_loops::level::{Arithmetic, Kernel, Level, Loop, usual_kernel};
use millstream_loops::operation::{
    Abs, Add, And, Ceil32, Ceil64, Cos32, Div, Eq, Erf32, Exp32, Exp64, Floor32, Floor64, Ge, Gt,
    Inverse, Le, Log32, Lt, Map, Max, Min, Mul, Ne, Neg, Not, Operation, Or, Power, Rem, Select,
    Shl, Shr, Sin32, Sqrt32, Sqrt64, Sub, Tanh32, Xor, operand, tile, tile_mut,
};

use super::{by_size, match_type, with_long, with_number, with_size};

/// A loop of two operands.
pub(crate) struct Choice {
    pub(crate) run: Kernel,
    /// The loop takes its operands in the other order.
    pub(crate) swaps: bool,
    /// The operands that must be columns, in the order of the loop.
    pub(crate) columns: [bool; 2],
}

/// Returns the loop whose operands are columns, or scalars as `scalar` says.
fn of<T: Copy, O: Operation<T>>(scalar: [bool; 2], level: Level) -> Option<Choice> {
    let run = match scalar {
        [true, false] => usual_kernel::<Map<T, O, true, false>>(level),
        [false, true] => usual_kernel::<Map<T, O, false, true>>(level),
        _ => usual_kernel::<Map<T, O, false, false>>(level),
    };
    Some(Choice {
        run: run?,
        swaps: false,
        columns: scalar.map(|scalar| !scalar),
    })
}

/// Returns a loop whose second operand may be a scalar, and `SECOND` instead of `O` if the first is: the same operation with
/// its operands swapped.
fn swapping<T: Copy, O: Operation<T>, SECOND: Operation<T>>(
    scalar: [bool; 2],
    level: Level,
) -> Option<Choice> {
    let (run, swaps, columns) = match scalar {
        [true, false] => (
            usual_kernel::<Map<T, SECOND, false, true>>(level),
            true,
            [true, false],
        ),
        [false, true] => (
            usual_kernel::<Map<T, O, false, true>>(level),
            false,
            [true, false],
        ),
        _ => (
            usual_kernel::<Map<T, O, false, false>>(level),
            false,
            [true, true],
        ),
    };
    Some(Choice {
        run: run?,
        swaps,
        columns,
    })
}

/// Returns a loop whose first operand is a column, and whose second may be a scalar.
fn second<T: Copy, O: Operation<T>>([_, b]: [bool; 2], level: Level) -> Option<Choice> {
    let choice = of::<T, O>([false, b], level)?;
    Some(Choice {
        columns: [true, !b],
        ..choice
    })
}

/// Returns the loop of an operation on two values, at most one of which is a scalar.
pub(crate) fn binary(
    op: BinaryOp,
    dtype: DType,
    scalar: [bool; 2],
    level: Level,
) -> Option<Choice> {
    match op {
        BinaryOp::Add => with_size!(dtype, T => swapping::<T, Add, Add>(scalar, level)),
        BinaryOp::Sub => with_size!(dtype, T => of::<T, Sub>(scalar, level)),
        BinaryOp::Mul => with_size!(dtype, T => swapping::<T, Mul, Mul>(scalar, level)),
        BinaryOp::Div if dtype == DType::F32 => of::<f32, Div>(scalar, level),
        BinaryOp::Div if dtype == DType::F64 => of::<f64, Div>(scalar, level),
        BinaryOp::Div => with_long!(dtype, T => second::<T, Div>(scalar, level)),
        BinaryOp::Rem => with_long!(dtype, T => second::<T, Rem>(scalar, level)),
        BinaryOp::Min => with_number!(dtype, T => swapping::<T, Min, Min>(scalar, level)),
        BinaryOp::Max => with_number!(dtype, T => swapping::<T, Max, Max>(scalar, level)),
        BinaryOp::And => by_size!(dtype.size(), T => swapping::<T, And, And>(scalar, level)),
        BinaryOp::Or => by_size!(dtype.size(), T => swapping::<T, Or, Or>(scalar, level)),
        BinaryOp::Xor => by_size!(dtype.size(), T => swapping::<T, Xor, Xor>(scalar, level)),
        BinaryOp::Shl => by_size!(dtype.size(), T => second::<T, Shl>(scalar, level)),
        BinaryOp::Shr => with_long!(dtype, T => second::<T, Shr>(scalar, level)),
        BinaryOp::Pow if dtype == DType::F32 => second::<f32, Power>(scalar, level),
        _ => None,
    }
}

/// Returns the loop of a comparison of two values, at most one of which is a scalar.
pub(crate) fn compare(
    op: CompareOp,
    dtype: DType,
    scalar: [bool; 2],
    level: Level,
) -> Option<Choice> {
    // Of two columns, "greater" is "less" with the operands swapped.
    let swapped = |choice: Choice| Choice {
        swaps: true,
        ..choice
    };
    let columns = scalar == [false; 2];
    match op {
        CompareOp::Eq => with_size!(dtype, T => swapping::<T, Eq, Eq>(scalar, level)),
        CompareOp::Ne => with_size!(dtype, T => swapping::<T, Ne, Ne>(scalar, level)),
        CompareOp::Gt if columns => compare(CompareOp::Lt, dtype, scalar, level).map(swapped),
        CompareOp::Ge if columns => compare(CompareOp::Le, dtype, scalar, level).map(swapped),
        CompareOp::Lt => with_number!(dtype, T => swapping::<T, Lt, Gt>(scalar, level)),
        CompareOp::Le => with_number!(dtype, T => swapping::<T, Le, Ge>(scalar, level)),
        CompareOp::Gt => with_number!(dtype, T => swapping::<T, Gt, Lt>(scalar, level)),
        CompareOp::Ge => with_number!(dtype, T => swapping::<T, Ge, Le>(scalar, level)),
        _ => None,
    }
}

/// Returns the loop of an operation on one value. Its second operand is a scalar, which does not matter.
pub(crate) fn unary(op: UnaryOp, dtype: DType, level: Level) -> Option<Kernel> {
    fn of<T: Copy, O: Operation<T>>(level: Level) -> Option<Kernel> {
        usual_kernel::<Map<T, O, false, true>>(level)
    }
    match (op, dtype) {
        (UnaryOp::Neg, _) => with_size!(dtype, T => of::<T, Neg>(level)),
        (UnaryOp::Abs, _) => match_type!(dtype, T => of::<T, Abs>(level);
            DType::F64 => f64, DType::F32 => f32, DType::I64 => i64, DType::I32 => i32; else None),
        (UnaryOp::Not, DType::Bool) => of::<u8, Inverse>(level),
        (UnaryOp::Not, _) => by_size!(dtype.size(), T => of::<T, Not>(level)),
        (UnaryOp::Sqrt, DType::F32) => of::<f32, Sqrt32>(level),
        (UnaryOp::Sqrt, DType::F64) => of::<f64, Sqrt64>(level),
        (UnaryOp::Floor, DType::F32) => of::<f32, Floor32>(level),
        (UnaryOp::Floor, DType::F64) => of::<f64, Floor64>(level),
        (UnaryOp::Ceil, DType::F32) => of::<f32, Ceil32>(level),
        (UnaryOp::Ceil, DType::F64) => of::<f64, Ceil64>(level),
        (UnaryOp::Exp, DType::F32) => of::<f32, Exp32>(level),
        (UnaryOp::Exp, DType::F64) => of::<f64, Exp64>(level),
        (UnaryOp::Log, DType::F32) => of::<f32, Log32>(level),
        (UnaryOp::Sin, DType::F32) => of::<f32, Sin32>(level),
        (UnaryOp::Cos, DType::F32) => of::<f32, Cos32>(level),
        (UnaryOp::Tanh, DType::F32) => of::<f32, Tanh32>(level),
        (UnaryOp::Erf, DType::F32) => of::<f32, Erf32>(level),
        _ => None,
    }
}

/// Returns the loop of a selection among values of `size` bytes, whose condition is a column. `scalar`: which of the two
/// are scalars.
pub(crate) fn select(size: usize, scalar: [bool; 2], level: Level) -> Option<Kernel> {
    fn of<T: Copy>(scalar: [bool; 2], level: Level) -> Option<Kernel> {
        match scalar {
            [false, false] => usual_kernel::<Select<T, false, false>>(level),
            [true, false] => usual_kernel::<Select<T, true, false>>(level),
            [false, true] => usual_kernel::<Select<T, false, true>>(level),
            [true, true] => usual_kernel::<Select<T, true, true>>(level),
        }
    }
    by_size!(size, T => of::<T>(scalar, level))
}

/// `a * b + c`, rounded once. `a` is a column.
struct Fma<T, const SB: bool, const SC: bool>(PhantomData<T>);

impl<T: Number, const SB: bool, const SC: bool> Loop for Fma<T, SB, SC> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        // SAFETY: the caller's promises; the indices are those of `d`.
        let (b, c) = unsafe { (operand::<T, SB>(b), operand::<T, SC>(c)) };
        // SAFETY: as above.
        let (d, a) = unsafe { (tile_mut(d, n), tile::<T>(a, n)) };
        for (index, (d, a)) in d.iter_mut().zip(a).enumerate() {
            *d = a.mul_add(b(index), c(index));
        }
    }
}

/// Returns the loop of `a * b + c`. `scalar`: which of the second and the third are scalars.
pub(crate) fn fma(dtype: DType, scalar: [bool; 2], level: Level) -> Option<Kernel> {
    fn of<T: Number>(scalar: [bool; 2], level: Level) -> Option<Kernel> {
        match scalar {
            [false, false] => usual_kernel::<Fma<T, false, false>>(level),
            [true, false] => usual_kernel::<Fma<T, true, false>>(level),
            [false, true] => usual_kernel::<Fma<T, false, true>>(level),
            [true, true] => usual_kernel::<Fma<T, true, true>>(level),
        }
    }
    match dtype {
        DType::F32 => of::<f32>(scalar, level),
        DType::F64 => of::<f64>(scalar, level),
        _ => None,
    }
}

/// Random numbers from a seed and counters, which are a column.
struct Random<const SEED: bool>;

impl<const SEED: bool> Loop for Random<SEED> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller's promises; the indices are those of `d`.
        let seed = unsafe { operand::<u64, SEED>(b) };
        // SAFETY: as above.
        let (d, a) = unsafe { (tile_mut::<u32>(d, n), tile::<u64>(a, n)) };
        for (index, (d, a)) in d.iter_mut().zip(a).enumerate() {
            *d = scalar::random(seed(index), *a) as u32;
        }
    }
}

/// Returns the loop of random numbers: of counters, and a seed, which may be a scalar.
pub(crate) fn random(seed_is_scalar: bool, level: Level) -> Option<Kernel> {
    match seed_is_scalar {
        true => usual_kernel::<Random<true>>(level),
        false => usual_kernel::<Random<false>>(level),
    }
}

/// The next index of a loop. A sum beyond `i64::MAX` ends the loop.
struct Advance;

impl Operation<i64> for Advance {
    type Out = i64;
    #[inline(always)]
    fn of<A: Arithmetic>(index: i64, step: i64) -> i64 {
        index.saturating_add(step)
    }
}

/// Returns the loop that advances the indices of a loop.
pub(crate) fn advance(scalar: bool, level: Level) -> Option<Kernel> {
    of::<i64, Advance>([false, scalar], level).map(|choice| choice.run)
}

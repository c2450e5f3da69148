//! Element-wise operations of one, two or three values.

use std::marker::PhantomData;

use millstream_ir::scalar::arith::{Bits, Number};
use millstream_ir::{BinaryOp, CompareOp, DType, UnaryOp};

use super::{by_size, operand, tile, tile_mut, with_bits, with_type};
use crate::truth::Truth;
use millstream_loops::level::{Arithmetic, Kernel, Level, Loop, kernel};
use millstream_loops::math::power::{power, power_usual};

/// An operation on two values, or on the first of them. It may have a fast path for usual values.
pub(super) trait Operation<T> {
    type Out;
    fn of<A: Arithmetic>(a: T, b: T) -> Self::Out;

    /// Returns the result of the fast path, and whether it is valid.
    #[inline(always)]
    fn usual<A: Arithmetic>(a: T, b: T) -> (Self::Out, bool) {
        (Self::of::<A>(a, b), true)
    }
}

/// `SA` and `SB`: whether that operand is a scalar.
pub(super) struct Map<T, O, const SA: bool, const SB: bool>(PhantomData<(T, O)>);

impl<T: Copy, O: Operation<T>, const SA: bool, const SB: bool> Loop for Map<T, O, SA, SB> {
    /// The fast path, and the general form for the whole tile if one value is unusual.
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, _: *const u8, n: usize) {
        // SAFETY: the caller's promises; the indices are those of `d`.
        let (a, b) = unsafe { (operand::<T, SA>(a), operand::<T, SB>(b)) };
        // SAFETY: as above.
        let d = unsafe { tile_mut(d, n) };
        let mut unusual = 0_u32;
        for (index, d) in d.iter_mut().enumerate() {
            let (found, is_usual) = O::usual::<A>(a(index), b(index));
            unusual |= u32::from(!is_usual);
            *d = found;
        }
        if unusual != 0 {
            for (index, d) in d.iter_mut().enumerate() {
                *d = O::of::<A>(a(index), b(index));
            }
        }
    }
}

/// Returns the loop of an operation on one value. The second operand is a scalar, which does not matter.
pub(super) fn map1<T: Copy, O: Operation<T>>(level: Level) -> Kernel {
    kernel::<Map<T, O, false, true>>(level)
}

fn map2<T: Copy, O: Operation<T>>(scalar: [bool; 2], level: Level) -> Kernel {
    match scalar {
        [true, false] => kernel::<Map<T, O, true, false>>(level),
        [false, true] => kernel::<Map<T, O, false, true>>(level),
        // Two scalars make one element, which is a tile of one.
        _ => kernel::<Map<T, O, false, false>>(level),
    }
}

macro_rules! unary {
    ($($name:ident: $bound:ident, $a:ident => $body:expr;)*) => {$(
        struct $name;
        impl<T: $bound> Operation<T> for $name {
            type Out = T;
            #[inline(always)]
            fn of<A: Arithmetic>($a: T, _: T) -> T { $body }
        }
    )*};
}

unary! {
    Neg: Number, a => a.negated();
    Abs: Number, a => a.absolute();
    Not: Bits, a => a.inverted();
    Inverse: Number, a => if a == T::ZERO { T::ONE } else { T::ZERO };
}

/// Operations on two values, and a function that returns the loop of each.
macro_rules! binary {
    ($of:ident of $ops:ident, $bound:ident -> $out:ty: $($name:ident, $a:ident, $b:ident => $body:expr;)*) => {
        $(
            struct $name;
            impl<T: $bound> Operation<T> for $name {
                type Out = $out;
                #[inline(always)]
                fn of<A: Arithmetic>($a: T, $b: T) -> $out { $body }
            }
        )*

        fn $of<T: $bound>(op: $ops, scalar: [bool; 2], level: Level) -> Option<Kernel> {
            match op {
                $($ops::$name => Some(map2::<T, $name>(scalar, level)),)*
                _ => None,
            }
        }
    };
}

binary! { arithmetic of BinaryOp, Number -> T:
    Add, a, b => a.plus(b);
    Sub, a, b => a.minus(b);
    Mul, a, b => a.times(b);
    Div, a, b => a.over(b);
    Rem, a, b => a.remainder(b);
    Min, a, b => a.least(b);
    Max, a, b => a.greatest(b);
}

binary! { bits of BinaryOp, Bits -> T:
    And, a, b => a.and(b);
    Or, a, b => a.or(b);
    Xor, a, b => a.xor(b);
    Shl, a, b => a.shifted_up(b);
    Shr, a, b => a.shifted_down(b);
}

binary! { comparison of CompareOp, Number -> Truth:
    Eq, a, b => Truth::of(a == b);
    Ne, a, b => Truth::of(a != b);
    Lt, a, b => Truth::of(a < b);
    Le, a, b => Truth::of(a <= b);
    Gt, a, b => Truth::of(a > b);
    Ge, a, b => Truth::of(a >= b);
}

struct Power;

impl Operation<f64> for Power {
    type Out = f64;
    #[inline(always)]
    fn of<A: Arithmetic>(a: f64, b: f64) -> f64 {
        a.powf(b)
    }
}

impl Operation<f32> for Power {
    type Out = f32;
    #[inline(always)]
    fn of<A: Arithmetic>(a: f32, b: f32) -> f32 {
        power::<A>(a, b)
    }

    #[inline(always)]
    fn usual<A: Arithmetic>(a: f32, b: f32) -> (f32, bool) {
        power_usual::<A>(a, b)
    }
}

/// Selects the second where the first is true, otherwise the third; both may be scalars. Only bits are moved, so the
/// types are those of the values' sizes.
struct Select<T, const SB: bool, const SC: bool>(PhantomData<T>);

impl<T: Copy, const SB: bool, const SC: bool> Loop for Select<T, SB, SC> {
    #[inline(always)]
    unsafe fn run<A: Arithmetic>(d: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
        // SAFETY: the caller's promises; the indices are those of `d`.
        let (b, c) = unsafe { (operand::<T, SB>(b), operand::<T, SC>(c)) };
        // SAFETY: as above.
        let (d, a) = unsafe { (tile_mut(d, n), tile::<u8>(a, n)) };
        for (index, (d, a)) in d.iter_mut().zip(a).enumerate() {
            let (b, c) = (b(index), c(index));
            *d = if *a != 0 { b } else { c };
        }
    }
}

/// Returns the loop of a unary operation that is no function, if the type has one.
pub(super) fn unary(op: UnaryOp, dtype: DType, level: Level) -> Option<Kernel> {
    Some(match op {
        UnaryOp::Neg => with_type!(dtype, T => map1::<T, Neg>(level), else return None),
        UnaryOp::Abs => with_type!(dtype, T => map1::<T, Abs>(level), else return None),
        UnaryOp::Not if dtype == DType::Bool => map1::<u8, Inverse>(level),
        UnaryOp::Not => with_bits!(dtype, T => map1::<T, Not>(level), else return None),
        _ => return None,
    })
}

/// Returns the loop of a binary operation whose operands may be scalars, if the type has one.
pub(crate) fn binary(
    op: BinaryOp,
    dtype: DType,
    scalar: [bool; 2],
    level: Level,
) -> Option<Kernel> {
    match op {
        BinaryOp::Pow => match dtype {
            DType::F32 => Some(map2::<f32, Power>(scalar, level)),
            DType::F64 => Some(map2::<f64, Power>(scalar, level)),
            _ => None,
        },
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr => {
            with_bits!(dtype, T => bits::<T>(op, scalar, level), else None)
        }
        _ => with_type!(dtype, T => arithmetic::<T>(op, scalar, level), else None),
    }
}

/// Returns the loop of a comparison, if the type has one.
pub(crate) fn compare(
    op: CompareOp,
    dtype: DType,
    scalar: [bool; 2],
    level: Level,
) -> Option<Kernel> {
    with_type!(dtype, T => comparison::<T>(op, scalar, level), else None)
}

/// Returns the loop of a selection among values of `size` bytes, whose condition is a tile. `scalar`: which of the
/// two are scalars.
pub(crate) fn select(size: usize, scalar: [bool; 2], level: Level) -> Kernel {
    fn of<T: Copy>(scalar: [bool; 2], level: Level) -> Kernel {
        match scalar {
            [false, false] => kernel::<Select<T, false, false>>(level),
            [true, false] => kernel::<Select<T, true, false>>(level),
            [false, true] => kernel::<Select<T, false, true>>(level),
            [true, true] => kernel::<Select<T, true, true>>(level),
        }
    }
    by_size!(size, T => of::<T>(scalar, level))
}

//! Element-wise operations of one, two or three values.

use millstream_ir::scalar::arith::{Bits, Number};
use millstream_ir::{BinaryOp, CompareOp, DType, UnaryOp};
use millstream_loops::level::{Kernel, Level, kernel};
use millstream_loops::operation::{self, Abs, Inverse, Map, Neg, Not, Operation, Power, Select};

use super::{by_size, with_bits, with_type};

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

/// A function that returns the loop of each of these operations.
macro_rules! binary {
    ($of:ident of $ops:ident, $bound:ident: $($name:ident),*) => {
        fn $of<T: $bound>(op: $ops, scalar: [bool; 2], level: Level) -> Option<Kernel> {
            match op {
                $($ops::$name => Some(map2::<T, operation::$name>(scalar, level)),)*
                _ => None,
            }
        }
    };
}

binary!(arithmetic of BinaryOp, Number: Add, Sub, Mul, Div, Rem, Min, Max);
binary!(bits of BinaryOp, Bits: And, Or, Xor, Shl, Shr);
binary!(comparison of CompareOp, Number: Eq, Ne, Lt, Le, Gt, Ge);

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

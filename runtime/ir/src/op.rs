//! Operations on values, shared by graphs, nests and SSA. [`scalar`](crate::scalar) defines their meaning.
//!
//! Integer arithmetic wraps and never traps: a quotient or remainder by zero is zero, as in NumPy. A remainder has the
//! sign of the dividend, as in Rust. The minimum and maximum of floats are NaN if either operand is. Halves
//! ([`DType::F16`], [`DType::Bf16`]) are only stored and cast: programs widen them to `f32` before they compute.

use crate::DType;
use crate::named::named;

named! {
    /// An operation on one value, with a result of the same type.
    #[non_exhaustive]
    UnaryOp {
        /// Negation; of integers wrapping.
        Neg = "neg",
        /// Absolute value; of integers wrapping.
        Abs = "abs",
        /// Square root.
        Sqrt = "sqrt",
        /// e to the power of the value.
        Exp = "exp",
        /// Natural logarithm.
        Log = "log",
        /// Sine of radians.
        Sin = "sin",
        /// Cosine of radians.
        Cos = "cos",
        /// Hyperbolic tangent.
        Tanh = "tanh",
        /// Error function.
        Erf = "erf",
        /// Rounded down to an integer.
        Floor = "floor",
        /// Rounded up to an integer.
        Ceil = "ceil",
        /// Bitwise not; logical not for bools.
        Not = "not",
    }
}

named! {
    /// An operation on two values of one type, with a result of that type.
    #[non_exhaustive]
    BinaryOp {
        /// Sum.
        Add = "add",
        /// Difference.
        Sub = "sub",
        /// Product.
        Mul = "mul",
        /// Quotient. Integers round towards zero; by zero it is 0.
        Div = "div",
        /// Remainder with the sign of the dividend. Of integers by zero it is 0.
        Rem = "rem",
        /// The smaller value; NaN if either is.
        Min = "min",
        /// The greater value; NaN if either is.
        Max = "max",
        /// Power, of floats.
        Pow = "pow",
        /// Bitwise and.
        And = "and",
        /// Bitwise or.
        Or = "or",
        /// Bitwise exclusive or.
        Xor = "xor",
        /// Left shift of an integer by the second operand. 0 if the shift is negative or at least the number of bits.
        Shl = "shl",
        /// Right shift of an integer by the second operand, arithmetic for signed types. If the shift is negative or at
        /// least the number of bits, only sign bits remain.
        Shr = "shr",
    }
}

named! {
    /// A comparison of two values of one type, with a `bool` result. Of NaN only `ne` is true.
    #[non_exhaustive]
    CompareOp {
        /// Equal.
        Eq = "eq",
        /// Not equal.
        Ne = "ne",
        /// Less.
        Lt = "lt",
        /// Less or equal.
        Le = "le",
        /// Greater.
        Gt = "gt",
        /// Greater or equal.
        Ge = "ge",
    }
}

named! {
    /// A reduction of many values to one.
    #[non_exhaustive]
    ReduceOp {
        /// Sum; 0 without values.
        Sum = "sum",
        /// Product; 1 without values.
        Prod = "prod",
        /// Minimum; NaN if one value is. Without values the greatest value of the type.
        Min = "min",
        /// Maximum; NaN if one value is. Without values the least value of the type.
        Max = "max",
        /// Index of the first minimum, or of the first NaN, as `i64`. 0 without values.
        ArgMin = "argmin",
        /// Index of the first maximum, or of the first NaN, as `i64`. 0 without values.
        ArgMax = "argmax",
    }
}

/// Returns `true` if values are computed in this type.
fn computes(dtype: DType) -> bool {
    dtype.computed() == dtype
}

impl UnaryOp {
    /// Returns `true` if the operation supports this type.
    pub fn takes(self, dtype: DType) -> bool {
        match self {
            UnaryOp::Neg | UnaryOp::Abs => computes(dtype) && dtype != DType::Bool,
            UnaryOp::Not => !dtype.is_float(),
            _ => dtype.is_float() && computes(dtype),
        }
    }
}

impl BinaryOp {
    /// Returns `true` if the operation supports this type.
    pub fn takes(self, dtype: DType) -> bool {
        match self {
            BinaryOp::Pow => dtype.is_float() && computes(dtype),
            BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => !dtype.is_float(),
            BinaryOp::Min | BinaryOp::Max => computes(dtype),
            BinaryOp::Shl | BinaryOp::Shr => !dtype.is_float() && dtype != DType::Bool,
            _ => computes(dtype) && dtype != DType::Bool,
        }
    }
}

impl ReduceOp {
    /// Returns `true` if the operation supports this type.
    pub fn takes(self, dtype: DType) -> bool {
        match self {
            ReduceOp::Sum | ReduceOp::Prod => computes(dtype) && dtype != DType::Bool,
            _ => computes(dtype),
        }
    }

    /// Returns the type of the result for values of this type.
    pub fn output(self, dtype: DType) -> DType {
        match self {
            ReduceOp::ArgMin | ReduceOp::ArgMax => DType::I64,
            _ => dtype,
        }
    }
}

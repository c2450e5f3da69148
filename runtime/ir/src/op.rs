//! What is done to values, the same words at every level: graphs, nests and SSA. What they mean, value by value, is in
//! [`scalar`](crate::scalar).
//!
//! Arithmetic of integers wraps and never traps: a quotient or remainder by zero is zero, as NumPy has it. A remainder
//! has the sign of the dividend, as Rust has it. Minimum and maximum of floats are NaN if either side is. Halves
//! ([`DType::F16`], [`DType::Bf16`]) are stored and cast only: whatever computes widens them to `f32` first.

use std::fmt;

use crate::DType;

macro_rules! ops {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum $name { $($(#[$doc])* $variant),* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// Its word in texts.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }

            /// The one with this word.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|op| op.name() == name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

ops! {
    /// One value in, one of the same type out.
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
        /// The greatest whole number that is not above.
        Floor = "floor",
        /// The smallest whole number that is not below.
        Ceil = "ceil",
        /// Every bit inverted; of truth values the other.
        Not = "not",
    }
}

ops! {
    /// Two values of one type in, one of that type out.
    BinaryOp {
        /// Sum.
        Add = "add",
        /// Difference.
        Sub = "sub",
        /// Product.
        Mul = "mul",
        /// Quotient; of integers towards zero, and zero where the divisor is.
        Div = "div",
        /// Remainder with the sign of the dividend; of integers zero where the divisor is.
        Rem = "rem",
        /// The smaller; NaN if one is.
        Min = "min",
        /// The greater; NaN if one is.
        Max = "max",
        /// Power, of floats.
        Pow = "pow",
        /// And of the bits.
        And = "and",
        /// Or of the bits.
        Or = "or",
        /// Exclusive or of the bits.
        Xor = "xor",
        /// The bits of an integer moved up by the second. By at least as many places as the type has bits, or by less than 0, none
        /// is left.
        Shl = "shl",
        /// The bits of an integer moved down by the second; of a signed one copies of its sign come in. By at least as many places
        /// as the type has bits, or by less than 0, nothing else is left.
        Shr = "shr",
    }
}

ops! {
    /// Two values of one type in, a truth value out. Only `ne` is true of NaN.
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

ops! {
    /// Many values in, one out.
    ReduceOp {
        /// Their sum; of none zero.
        Sum = "sum",
        /// Their product; of none one.
        Prod = "prod",
        /// The least; NaN if one is. Of none the greatest value of the type.
        Min = "min",
        /// The greatest; NaN if one is. Of none the least value of the type.
        Max = "max",
        /// Index of the first least, or of the first NaN, as `i64`. Of none zero.
        ArgMin = "argmin",
        /// Index of the first greatest, or of the first NaN, as `i64`. Of none zero.
        ArgMax = "argmax",
    }
}

/// Whether values are computed in this type.
fn computes(dtype: DType) -> bool {
    dtype.computed() == dtype
}

impl UnaryOp {
    /// Can it be done to values of this type?
    pub fn takes(self, dtype: DType) -> bool {
        match self {
            UnaryOp::Neg | UnaryOp::Abs => computes(dtype) && dtype != DType::Bool,
            UnaryOp::Not => !dtype.is_float(),
            _ => dtype.is_float() && computes(dtype),
        }
    }
}

impl BinaryOp {
    /// Can it be done to values of this type?
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
    /// Can it be done to values of this type?
    pub fn takes(self, dtype: DType) -> bool {
        match self {
            ReduceOp::Sum | ReduceOp::Prod => computes(dtype) && dtype != DType::Bool,
            _ => computes(dtype),
        }
    }

    /// The type of what comes out of values of this type.
    pub fn output(self, dtype: DType) -> DType {
        match self {
            ReduceOp::ArgMin | ReduceOp::ArgMax => DType::I64,
            _ => dtype,
        }
    }
}

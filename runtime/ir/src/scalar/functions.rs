//! Functions of floats: in `f64`, rounded once. A line for each has what tests know of it: how exact it is, of which floats it is a
//! number, and what it is of one of them.

use std::f64::consts::{E, FRAC_PI_3, FRAC_PI_6, LN_2};

use super::{Binary, Unary};
use crate::{BinaryOp, UnaryOp};

/// A float type, by the bits of its values.
pub(super) trait Float {
    /// The value of these bits.
    fn wide(bits: u64) -> f64;
    /// The bits of this value, rounded.
    fn rounded(value: f64) -> u64;
}

/// Every float.
const ALL: [f64; 2] = [f64::NEG_INFINITY, f64::INFINITY];
/// Those that are not negative.
const POSITIVE: [f64; 2] = [0.0, f64::INFINITY];

macro_rules! functions {
    ($($op:ident: $units:literal units, of $domain:ident, at $at:expr => $known:expr, $function:expr;)*) => {
        /// A function of the bits of a float.
        pub(super) fn unary<T: Float>(op: UnaryOp) -> Option<Unary> {
            match op {
                $(UnaryOp::$op => Some(|a| {
                    let function: fn(f64) -> f64 = $function;
                    T::rounded(function(T::wide(a)))
                }),)*
                _ => None,
            }
        }

        /// How exactly it is computed, and of what.
        impl UnaryOp {
            /// Units in the last place that a result on a CPU is at most from the [reference](crate::scalar), for floats. 0 where it is
            /// exact. What a GPU's functions are from it, its maker says.
            pub const fn units(self) -> u64 {
                match self {
                    $(UnaryOp::$op => $units,)*
                    _ => 0,
                }
            }

            /// The least and the greatest float that it gives a number for.
            pub const fn domain(self) -> [f64; 2] {
                match self {
                    $(UnaryOp::$op => $domain,)*
                    _ => ALL,
                }
            }

            /// A float, and what it gives for it: known without computing it. None for operations that floats do not have.
            pub const fn known(self) -> Option<[f64; 2]> {
                match self {
                    $(UnaryOp::$op => Some([$at, $known]),)*
                    _ => None,
                }
            }
        }
    };
}

functions! {
    Neg: 0 units, of ALL, at 2.5 => -2.5, |x| -x;
    Abs: 0 units, of ALL, at -2.5 => 2.5, f64::abs;
    Sqrt: 0 units, of POSITIVE, at 6.25 => 2.5, f64::sqrt;
    Exp: 2 units, of ALL, at 1.0 => E, f64::exp;
    Log: 2 units, of POSITIVE, at 2.0 => LN_2, f64::ln;
    Sin: 2 units, of ALL, at FRAC_PI_6 => 0.5, f64::sin;
    Cos: 2 units, of ALL, at FRAC_PI_3 => 0.5, f64::cos;
    Tanh: 2 units, of ALL, at LN_2 => 0.6, f64::tanh;
    Erf: 2 units, of ALL, at 0.5 => 0.520_499_877_813_046_5, libm::erf;
    Floor: 0 units, of ALL, at -1.5 => -2.0, f64::floor;
    Ceil: 0 units, of ALL, at -1.5 => -1.0, f64::ceil;
}

/// A function of the bits of two floats.
pub(super) fn binary<T: Float>(op: BinaryOp) -> Option<Binary> {
    match op {
        BinaryOp::Pow => Some(|a, b| {
            let [a, b] = [a, b].map(T::wide);
            T::rounded(a.powf(b))
        }),
        _ => None,
    }
}

impl BinaryOp {
    /// Units in the last place that a result on a CPU is at most from the [reference](crate::scalar), for floats. 0 where it is exact.
    /// What a GPU's functions are from it, its maker says.
    pub const fn units(self) -> u64 {
        match self {
            BinaryOp::Pow => 1,
            _ => 0,
        }
    }
}

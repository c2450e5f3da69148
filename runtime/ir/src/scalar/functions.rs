//! Functions of floats: computed in `f64`, rounded once. One line for each states what tests use: accuracy, domain, and
//! a known value.

use std::f64::consts::{E, FRAC_PI_3, FRAC_PI_6, LN_2};

use super::Element;
use super::{Number, Unary};
use crate::{BinaryOp, UnaryOp};

/// Returns the value of the bits of a float.
pub(super) fn wide<T: Element>(bits: u64) -> f64 {
    T::of(bits).value().float()
}

/// Returns the bits of a value, rounded to a float.
pub(super) fn rounded<T: Element>(value: f64) -> u64 {
    T::near(Number::Float(value)).bits()
}

/// All floats.
const ALL: [f64; 2] = [f64::NEG_INFINITY, f64::INFINITY];
/// The floats that are not negative.
const POSITIVE: [f64; 2] = [0.0, f64::INFINITY];

macro_rules! functions {
    ($($op:ident: $units:literal units, of $domain:ident, at $at:expr => $known:expr, $function:expr;)*) => {
        /// Returns a function on the bits of a float.
        pub(super) fn unary<T: Element>(op: UnaryOp) -> Option<Unary> {
            match op {
                $(UnaryOp::$op => Some(|a| {
                    let function: fn(f64) -> f64 = $function;
                    rounded::<T>(function(wide::<T>(a)))
                }),)*
                _ => None,
            }
        }

        /// Accuracy and domain.
        impl UnaryOp {
            /// Returns by how many units in the last place a result on a CPU may differ from the
            /// [reference](crate::scalar), for floats. 0 if it is exact. For a GPU see the accuracy that its vendor
            /// documents.
            pub const fn units(self) -> u64 {
                match self {
                    $(UnaryOp::$op => $units,)*
                    _ => 0,
                }
            }

            /// Returns the least and the greatest float for which the result is a number.
            pub const fn domain(self) -> [f64; 2] {
                match self {
                    $(UnaryOp::$op => $domain,)*
                    _ => ALL,
                }
            }

            /// Returns a float and the known result for it, which is not computed. `None` if the operation does not
            /// support floats.
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

impl BinaryOp {
    /// Returns by how many units in the last place a result on a CPU may differ from the [reference](crate::scalar),
    /// for floats. 0 if it is exact. For a GPU see the accuracy that its vendor documents.
    pub const fn units(self) -> u64 {
        match self {
            BinaryOp::Pow => 1,
            _ => 0,
        }
    }
}

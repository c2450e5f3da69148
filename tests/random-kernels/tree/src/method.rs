//! Methods of numbers whose results have the same bits on all devices.

use crate::number::Ty;
use Method::{
    AbsDiff, Clamp, Copysign, CountOnes, CountZeros, Fract, FromBits, IsFinite, IsInfinite, IsNan,
    IsSignNegative, IsSignPositive, LeadingZeros, MulAdd, Pow, Powi, Recip, RemEuclid, ReverseBits,
    RotateLeft, RotateRight, Round, SaturatingAdd, SaturatingSub, Signum, Sqrt, ToBits,
    TrailingZeros, Trunc, WrappingAdd, WrappingMul, WrappingSub,
};

/// A method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the methods of Rust")]
pub enum Method {
    Clamp,
    RemEuclid,
    Trunc,
    Round,
    Fract,
    Signum,
    Recip,
    Sqrt,
    MulAdd,
    Powi,
    Copysign,
    IsNan,
    IsFinite,
    IsInfinite,
    IsSignNegative,
    IsSignPositive,
    ToBits,
    /// `f32::from_bits(x)`.
    FromBits,
    CountOnes,
    CountZeros,
    LeadingZeros,
    TrailingZeros,
    ReverseBits,
    RotateLeft,
    RotateRight,
    Pow,
    AbsDiff,
    SaturatingAdd,
    SaturatingSub,
    WrappingAdd,
    WrappingSub,
    WrappingMul,
}

/// All of them, with their names.
pub const METHODS: &[(Method, &str)] = &[
    (Clamp, "clamp"),
    (RemEuclid, "rem_euclid"),
    (Trunc, "trunc"),
    (Round, "round"),
    (Fract, "fract"),
    (Signum, "signum"),
    (Recip, "recip"),
    (Sqrt, "sqrt"),
    (MulAdd, "mul_add"),
    (Powi, "powi"),
    (Copysign, "copysign"),
    (IsNan, "is_nan"),
    (IsFinite, "is_finite"),
    (IsInfinite, "is_infinite"),
    (IsSignNegative, "is_sign_negative"),
    (IsSignPositive, "is_sign_positive"),
    (ToBits, "to_bits"),
    (FromBits, "from_bits"),
    (CountOnes, "count_ones"),
    (CountZeros, "count_zeros"),
    (LeadingZeros, "leading_zeros"),
    (TrailingZeros, "trailing_zeros"),
    (ReverseBits, "reverse_bits"),
    (RotateLeft, "rotate_left"),
    (RotateRight, "rotate_right"),
    (Pow, "pow"),
    (AbsDiff, "abs_diff"),
    (SaturatingAdd, "saturating_add"),
    (SaturatingSub, "saturating_sub"),
    (WrappingAdd, "wrapping_add"),
    (WrappingSub, "wrapping_sub"),
    (WrappingMul, "wrapping_mul"),
];

/// What stands for a NaN where its bits would be seen: devices differ in them.
const KNOWN: f64 = 7.0;

/// The functions `known_f32` and `known_f64`, which replace a NaN.
pub const KNOWN_FUNCTIONS: &str = "\
#[kernel] pub fn known_f32(x: f32) -> f32 { if x.is_nan() { 7.0 } else { x } }
#[kernel] pub fn known_f64(x: f64) -> f64 { if x.is_nan() { 7.0 } else { x } }
";

impl Method {
    /// Returns the name.
    ///
    /// # Panics
    /// The list lacks it.
    pub fn name(self) -> &'static str {
        let found = METHODS.iter().find(|(method, _)| *method == self);
        found.expect("the list has all").1
    }

    /// Returns the types of the operands and of the result, if numbers of a type have the method.
    pub fn signature(self, of: Ty) -> Option<(Vec<Ty>, Ty)> {
        let is_of_float = (Self::Trunc as usize..=Self::ToBits as usize).contains(&(self as usize));
        let is_of_int = self as usize >= Self::CountOnes as usize;
        if is_of_float && !of.is_float() || is_of_int && !of.is_int() || of == Ty::Bool {
            return None;
        }
        let word = match of {
            Ty::F32 => Ty::U32,
            _ => Ty::U64,
        };
        let operands = match self {
            Clamp | MulAdd => vec![of; 3],
            RemEuclid | Copysign | AbsDiff | SaturatingAdd | SaturatingSub | WrappingAdd
            | WrappingSub | WrappingMul => vec![of; 2],
            Powi => vec![of, Ty::I32],
            RotateLeft | RotateRight | Pow => vec![of, Ty::U32],
            _ => vec![of],
        };
        let result = match self {
            IsNan | IsFinite | IsInfinite | IsSignNegative | IsSignPositive => Ty::Bool,
            ToBits => word,
            FromBits => match of {
                Ty::U32 => Ty::F32,
                Ty::U64 => Ty::F64,
                _ => return None,
            },
            CountOnes | CountZeros | LeadingZeros | TrailingZeros => Ty::U32,
            AbsDiff => of.unsigned(),
            _ => of,
        };
        Some((operands, result))
    }

    /// Returns whether the bits of this operand are seen, also those of a NaN.
    pub fn sees_bits(self, operand: usize) -> bool {
        match self {
            IsSignNegative | IsSignPositive | ToBits => operand == 0,
            Copysign => operand == 1,
            _ => false,
        }
    }

    /// Computes it.
    ///
    /// # Panics
    /// Operands are missing.
    pub fn compute(self, of: Ty, operands: &[u64]) -> u64 {
        match of.is_float() {
            true => self.of_float(of, operands),
            false => self.of_int(of, operands),
        }
    }

    fn of_float(self, of: Ty, operands: &[u64]) -> u64 {
        let mut operands = operands.to_vec();
        for (at, bits) in operands.iter_mut().enumerate() {
            if self.sees_bits(at) && of.float(*bits).is_nan() {
                *bits = of.rounded(KNOWN);
            }
        }
        let float = |at: usize| of.float(operands[at]);
        let x = float(0);
        let sign = |it: f64| if it.is_sign_negative() { -1.0 } else { 1.0 };
        // As of sums and products, one operation that is computed in `f64` and rounded is the same.
        of.rounded(match self {
            IsNan => return u64::from(x.is_nan()),
            IsFinite => return u64::from(x.is_finite()),
            IsInfinite => return u64::from(x.is_infinite()),
            IsSignNegative => return u64::from(x.is_sign_negative()),
            IsSignPositive => return u64::from(x.is_sign_positive()),
            ToBits => return operands[0],
            Clamp if (0..3).any(|at| float(at).is_nan()) => f64::NAN,
            // Without a sign: see the text.
            Clamp => x.max(float(1)).min(float(2)).abs(),
            RemEuclid => match x % float(1) {
                rest if rest < 0.0 => rest + float(1).abs(),
                rest => rest,
            },
            Trunc => x.trunc(),
            Round => x.round(),
            Fract => x - x.trunc(),
            Signum if x.is_nan() => x,
            Signum => sign(x),
            Recip => 1.0 / x,
            Sqrt => x.sqrt(),
            Copysign => x.abs() * sign(float(1)),
            MulAdd => match of {
                Ty::F32 => {
                    let [a, b, c] = [0, 1, 2].map(|at| float(at) as f32);
                    a.mul_add(b, c).into()
                }
                _ => x.mul_add(float(1), float(2)),
            },
            _ => {
                // A power: the square of the square .., times the number where the exponent has a bit.
                let n = Ty::I32.int(operands[1]);
                let (mut base, mut product) = (x, 1.0);
                for bit in 0..32 {
                    if n.abs() >> bit & 1 == 1 {
                        product = of.float(of.rounded(product * base));
                    }
                    base = of.float(of.rounded(base * base));
                }
                if n < 0 { 1.0 / product } else { product }
            }
        })
    }

    fn of_int(self, of: Ty, operands: &[u64]) -> u64 {
        let width = 8 * of.bytes() as u32;
        let bits = operands[0];
        let (x, y) = (
            of.int(bits),
            operands.get(1).map_or(0, |bits| of.int(*bits)),
        );
        let is_set = |bit: &u32| bits >> bit & 1 == 1;
        let rotated = |left: u64| {
            let left = (left % u64::from(width)) as u32;
            of.cut(i128::from(bits) << left | i128::from(bits) >> (width - left))
        };
        match self {
            Clamp => of.cut(x.max(y).min(of.int(operands[2]))),
            RemEuclid => match x.checked_rem(y).unwrap_or(0) {
                rest if rest < 0 => of.cut(rest + y.abs()),
                rest => of.cut(rest),
            },
            FromBits => bits,
            CountOnes => (0..width).filter(is_set).count() as u64,
            CountZeros => (0..width).filter(|bit| !is_set(bit)).count() as u64,
            LeadingZeros => (0..width).rev().take_while(|bit| !is_set(bit)).count() as u64,
            TrailingZeros => (0..width).take_while(|bit| !is_set(bit)).count() as u64,
            ReverseBits => {
                let bits = (0..width).filter(is_set).map(|bit| 1 << (width - 1 - bit));
                bits.sum()
            }
            RotateLeft => rotated(operands[1]),
            RotateRight => rotated(u64::from(width) - operands[1] % u64::from(width)),
            Pow => {
                let (mut base, mut product) = (bits, 1_u64);
                for bit in 0..32 {
                    if operands[1] >> bit & 1 == 1 {
                        product = product.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                }
                of.cut(i128::from(product))
            }
            AbsDiff => (x - y).unsigned_abs() as u64,
            SaturatingAdd => of.saturated(x + y),
            SaturatingSub => of.saturated(x - y),
            WrappingAdd => of.cut(x + y),
            WrappingSub => of.cut(x - y),
            _ => of.cut(x.wrapping_mul(y)),
        }
    }
}

/// Returns the methods that give a type, and of what.
pub fn giving(result: Ty) -> Vec<(Method, Vec<Ty>)> {
    let all = METHODS
        .iter()
        .flat_map(|(method, _)| crate::number::ALL.iter().map(|of| (*method, *of)));
    let fits = all.filter_map(|(method, of)| {
        let (operands, gives) = method.signature(of)?;
        (gives == result).then_some((method, operands))
    });
    fits.collect()
}

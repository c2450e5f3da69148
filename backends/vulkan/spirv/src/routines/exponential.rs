//! Exponentials, logarithms, and hyperbolic tangents. The polynomials are those of Cephes, of FreeBSD's `e_log.c`
//! and `e_logf.c`, and of N. Juffa.

use std::f64::consts::{LOG2_E, SQRT_2};

use millstream_ir::CompareOp;
use millstream_ir::ssa::Val;

use super::math::Math;

/// ln 2 in two parts. The first has so few bits that its product with an exponent is exact.
const LN_2_F32: [f64; 2] = [0.693_359_375, -2.121_944_4e-4];
const LN_2_F64: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];

/// Coefficients of (e^f - 1 - f) / f^2, the highest first: the reciprocals of the factorials from 13 down to 2.
const EXP: [f64; 12] = {
    let mut terms = [0.5; 12];
    let mut index = 11;
    while index > 0 {
        terms[index - 1] = terms[index] / (14 - index) as f64;
        index -= 1;
    }
    terms
};
/// As many of them as an `f32` needs.
const EXP_F32_TERMS: usize = 6;

/// Coefficients in s^2, where s = f / (2 + f), of the logarithm of 1 + f.
const LOG_F32: [f64; 4] = [
    2.427_907_884_1e-1,
    2.849_878_668_8e-1,
    4.000_097_215_2e-1,
    6.666_666_269_3e-1,
];
const LOG_F64: [f64; 7] = [
    1.479_819_860_511_658_6e-1,
    1.531_383_769_920_937_3e-1,
    1.818_357_216_161_805e-1,
    2.222_219_843_214_978_4e-1,
    2.857_142_874_366_239e-1,
    3.999_999_999_940_942e-1,
    6.666_666_666_666_735e-1,
];

/// Coefficients of (tanh x - x) / x^3 in powers of x^2.
const TANH_F32: [f64; 4] = [
    1.573_944e-2,
    -5.230_255_8e-2,
    1.331_524_7e-1,
    -3.333_276_8e-1,
];

/// Numerator and denominator of the same.
const TANH_F64: [&[f64]; 2] = [
    &[
        -9.643_991_794_250_523e-1,
        -9.928_772_310_019_185e1,
        -1.614_687_684_417_084_5e3,
    ],
    &[
        1.0,
        1.128_116_784_916_329_3e2,
        2.235_488_390_601_004_5e3,
        4.844_063_053_251_255e3,
    ],
];

impl<'k> Math<'k> {
    /// Returns e^x. The scale is applied in two halves, so that subnormal results are rounded once.
    pub(super) fn exp(self, x: Val<'k>) -> Val<'k> {
        let (terms, ends) = match self.is_f64() {
            true => (&EXP[..], [-746.0, 710.0]),
            false => (&EXP[EXP.len() - EXP_F32_TERMS..], [-104.0, 89.0]),
        };
        // NaN is preserved.
        let [least, most] = ends.map(|end| self.number(end));
        let x = x.lt(least).select(least, x);
        let x = most.lt(x).select(most, x);
        let (whole, n) = self.rounded(x * LOG2_E);
        let [high, low] = self.ln_2();
        let f = whole * -low + (whole * -high + x);
        let found = self.polynomial(terms, f) * (f * f) + f + 1.0;
        self.scaled(found, n)
    }

    fn ln_2(self) -> [f64; 2] {
        if self.is_f64() { LN_2_F64 } else { LN_2_F32 }
    }

    /// Returns `a * 2^n`, where n may be out of the range of exponents by a factor of two.
    pub(super) fn scaled(self, a: Val<'k>, n: Val<'k>) -> Val<'k> {
        let half = self.shift_right(n, 1);
        let [first, second] = [half, n - half].map(|n| self.power_of_two(n + self.bias()));
        a * first * second
    }

    /// Returns ln x.
    pub(super) fn log(self, x: Val<'k>) -> Val<'k> {
        let bits = self.bits(x);
        let magnitude = self.magnitude(bits);
        let parts = self.parts(magnitude);
        // The fraction between the roots of 1/2 and 2.
        let fraction = self.fraction(parts.significand);
        let is_large = fraction.compare(CompareOp::Gt, SQRT_2);
        let fraction = is_large.select(fraction * 0.5, fraction);
        let exponent = parts.exponent - self.bias();
        let exponent = is_large.select(exponent + 1, exponent).cast(self.float);
        let f = fraction - 1.0;
        let half_square = f * f * 0.5;
        let s = f / (f + 2.0);
        let z = s * s;
        let terms: &[f64] = if self.is_f64() { &LOG_F64 } else { &LOG_F32 };
        let r = self.polynomial(terms, z) * z;
        let [high, low] = self.ln_2();
        let low = exponent * low + s * (half_square + r);
        let found = exponent * high + (low - half_square + f);
        let zero = self.whole(0);
        let infinity = self.whole(self.infinity_bits());
        let found = magnitude
            .eq(zero)
            .select(self.number(f64::NEG_INFINITY), found);
        let found = bits.eq(infinity).select(x, found);
        let is_negative = self.sign(bits).compare(CompareOp::Ne, zero);
        let is_nan =
            infinity.lt(magnitude) | (is_negative & magnitude.compare(CompareOp::Ne, zero));
        is_nan.select(self.number(f64::NAN), found)
    }

    /// Returns tanh x.
    pub(super) fn tanh(self, x: Val<'k>) -> Val<'k> {
        let s = x * x;
        let (near, bound, end) = match self.is_f64() {
            true => {
                let [over, under] = TANH_F64.map(|terms| self.polynomial(terms, s));
                (x * s * (over / under) + x, 0.625, 20.0)
            }
            false => {
                let p = self.polynomial(&TANH_F32, s) * s;
                (p * x + x, 0.55, 10.0)
            }
        };
        let t = self.abs(x);
        // Beyond the end the result is one.
        let clamped = t.compare(CompareOp::Gt, end).select(self.number(end), t);
        let e = self.exp(clamped + clamped) + 1.0;
        let far = self.number(1.0) - self.number(2.0) / e;
        // The sum of two zeros would lose the sign of -0.
        self.with_sign(t.lt(bound).select(near, far), x)
    }
}

//! Exponentials, logarithms, and hyperbolic tangents. The polynomials are those of Cephes, of FreeBSD's `e_log.c`, and
//! of N. Juffa.

use std::f64::consts::{LOG2_E, SQRT_2};

use millstream_ir::CompareOp;
use millstream_ir::ssa::Val;

use super::math::Math;

/// ln 2 in two parts. The first has so few bits that its product with an exponent is exact.
const LN_2_F32: [f64; 2] = [0.693_359_375, -2.121_944_4e-4];
const LN_2_F64: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];

/// Coefficients of (e^f - 1 - f) / f^2, the highest first.
const EXP_F32: [f64; 6] = [
    1.987_569_15e-4,
    1.398_199_95e-3,
    8.333_451_9e-3,
    4.166_579_6e-2,
    1.666_666_546e-1,
    0.5,
];

/// The same: the reciprocals of the factorials from 13 down to 2.
const EXP_F64: [f64; 12] = {
    let mut terms = [0.5; 12];
    let mut index = 11;
    while index > 0 {
        terms[index - 1] = terms[index] / (14 - index) as f64;
        index -= 1;
    }
    terms
};

/// Coefficients of (ln(1 + m) - m + m^2 / 2) / m^3.
const LOG_F32: [f64; 9] = [
    7.037_683_6e-2,
    -1.151_461e-1,
    1.167_699_9e-1,
    -1.242_014_1e-1,
    1.424_932_3e-1,
    -1.666_805_8e-1,
    2.000_071_5e-1,
    -2.499_999_4e-1,
    3.333_333e-1,
];

/// Coefficients in s^2, where s = f / (2 + f), of the logarithm of 1 + f.
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
        let (ln_2, terms, ends): (_, &[f64], _) = match self.is_f64() {
            true => (LN_2_F64, &EXP_F64, [-746.0, 710.0]),
            false => (LN_2_F32, &EXP_F32, [-104.0, 89.0]),
        };
        // NaN is preserved.
        let [least, most] = ends.map(|end| self.number(end));
        let x = x.lt(least).select(least, x);
        let x = most.lt(x).select(most, x);
        let (whole, n) = self.rounded(x * LOG2_E);
        let f = whole * -ln_2[0] + x;
        let f = whole * -ln_2[1] + f;
        let found = self.polynomial(terms, f) * (f * f) + f + 1.0;
        self.scaled(found, n)
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
        let found = match self.is_f64() {
            true => self.log_f64(f, exponent),
            false => self.log_f32(f, exponent),
        };
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

    fn log_f32(self, m: Val<'k>, e: Val<'k>) -> Val<'k> {
        let z = m * m;
        let y = self.polynomial(&LOG_F32, m) * m * z;
        let y = e * LN_2_F32[1] + y;
        let y = z * -0.5 + y;
        e * LN_2_F32[0] + (m + y)
    }

    fn log_f64(self, f: Val<'k>, e: Val<'k>) -> Val<'k> {
        let half_square = f * f * 0.5;
        let s = f / (f + 2.0);
        let z = s * s;
        let r = self.polynomial(&LOG_F64, z) * z;
        let low = e * LN_2_F64[1] + s * (half_square + r);
        let sum = low - half_square + f;
        e * LN_2_F64[0] + sum
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
        t.lt(bound).select(near, self.with_sign(far, x))
    }
}

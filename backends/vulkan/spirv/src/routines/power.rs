//! Powers, after FreeBSD's `e_pow.c`: 2^(y log2 |x|), where the logarithm has one and a half times the digits of a
//! float, because the exponential multiplies its error.

use millstream_ir::ssa::Val;
use millstream_ir::{CompareOp, UnaryOp};

use super::math::Math;

/// Coefficients of (3/2) (ln m - 2 s - (2/3) s^3) / s^5 in s^2, where s = (m - 1) / (m + 1) or (m - 1.5) / (m + 1.5).
const LOG: [f64; 6] = [
    2.069_750_178_003_384_2e-1,
    2.306_607_457_755_617_5e-1,
    2.727_281_238_085_34e-1,
    3.333_333_298_183_774_3e-1,
    4.285_714_285_785_502e-1,
    5.999_999_999_999_946e-1,
];
/// Coefficients of the exponential.
const EXP: [f64; 5] = [
    4.138_136_797_057_238_5e-8,
    -1.653_390_220_546_525_2e-6,
    6.613_756_321_437_934e-5,
    -2.777_777_777_701_559_3e-3,
    1.666_666_666_666_660_2e-1,
];

/// The base-2 logarithm of 3/2, the natural one of 2, and 2 / (3 ln 2), in two parts whose first has few digits.
const LOG2_ONE_AND_HALF: [f64; 2] = [5.849_624_872_207_642e-1, 1.350_039_202_129_749e-8];
const LN_2: [f64; 2] = [6.931_471_824_645_996e-1, -1.904_654_299_957_768e-9];
const SCALE: [f64; 2] = [9.617_967_009_544_373e-1, -7.028_461_650_952_758e-9];

impl<'k> Math<'k> {
    /// Clears the low digits, so that the product of two such numbers is exact.
    fn high(self, a: Val<'k>) -> Val<'k> {
        let low = if self.is_f64() { 0xffff_ffff } else { 0xfff };
        self.of_bits(self.bits(a) & self.whole(!low))
    }

    /// Returns a number in two floats of this format, whose first has few digits.
    fn in_two(self, [high, low]: [f64; 2]) -> [f64; 2] {
        if self.is_f64() {
            return [high, low];
        }
        let all = high + low;
        let first = f32::from_bits((all as f32).to_bits() & !0xfff);
        [first.into(), all - f64::from(first)]
    }

    /// Returns x^y.
    pub(super) fn power(self, x: Val<'k>, y: Val<'k>) -> Val<'k> {
        let (zero, one) = (self.number(0.0), self.number(1.0));
        let infinity = self.number(f64::INFINITY);
        let bits = self.bits(x);
        let magnitude = self.magnitude(bits);
        let is_zero = magnitude.eq(self.whole(0));
        let is_infinite = magnitude.eq(self.whole(self.infinity_bits()));
        let found = self.power_of_magnitude(magnitude, y);
        let rises = y.compare(CompareOp::Gt, 0.0);
        let found = is_zero.select(rises.select(zero, infinity), found);
        let found = is_infinite.select(rises.select(infinity, zero), found);

        let floor = |a: Val<'k>| a.unary(UnaryOp::Floor);
        let half = y * 0.5;
        let (is_whole, is_even) = (floor(y).eq(y), floor(half).eq(half));
        let is_negative = self.sign(bits).compare(CompareOp::Ne, self.whole(0));
        let flips = is_negative & is_whole & !is_even;
        let found = flips.select(-found, found);
        let is_complex = is_negative & !is_whole & !is_zero & !is_infinite;
        let is_nan = x.compare(CompareOp::Ne, x) | y.compare(CompareOp::Ne, y) | is_complex;
        let found = is_nan.select(self.number(f64::NAN), found);
        (x.eq(one) | y.eq(zero)).select(one, found)
    }

    /// Returns the power of a positive finite number with these bits.
    fn power_of_magnitude(self, magnitude: Val<'k>, y: Val<'k>) -> Val<'k> {
        // As good as infinity for the exponent, and for the logarithm.
        let (exponent_max, log2_max) = match self.is_f64() {
            true => (2_f64.powi(64), 1200.0),
            false => (2_f64.powi(33), 200.0),
        };
        let [high, low] = self.log2(magnitude);
        let most = self.number(exponent_max);
        let y = y.compare(CompareOp::Gt, most).select(most, y);
        let y = y.lt(-most).select(-most, y);

        // (y_high + y_low) * (high + low)
        let y_high = self.high(y);
        let low = (y - y_high) * high + y * low;
        let high = y_high * high;
        let sum = low + high;
        let most = self.number(log2_max);
        let is_beyond = self.abs(sum).compare(CompareOp::Gt, most);
        let low = is_beyond.select(self.number(0.0), low);
        let high = is_beyond.select(self.with_sign(most, sum), high);
        self.exp2(high, low)
    }

    /// Returns the base-2 logarithm in two parts, of which the first has few digits.
    fn log2(self, magnitude: Val<'k>) -> [Val<'k>; 2] {
        let parts = self.parts(magnitude);
        let fraction = self.fraction(parts.significand);
        // Below the root of 3/2, below the root of 3, or half of the fraction.
        let is_near_one = fraction.lt(1.5_f64.sqrt());
        let is_halved = fraction.compare(CompareOp::Ge, 3_f64.sqrt());
        let is_middle = !is_near_one & !is_halved;
        let exponent = parts.exponent - self.bias();
        let exponent = is_halved.select(exponent + 1, exponent).cast(self.float);
        let m = is_halved.select(fraction * 0.5, fraction);
        let base = is_middle.select(self.number(1.5), self.number(1.0));

        // s = (m - base) / (m + base), in two parts.
        let over = m - base;
        let reciprocal = self.number(1.0) / (m + base);
        let s = over * reciprocal;
        let s_high = self.high(s);
        let under_high = self.high(m + base);
        let under_low = m - (under_high - base);
        let s_low = reciprocal * ((over - s_high * under_high) - s_high * under_low);

        // 3 + s^2 + r, in two parts.
        let square = s * s;
        let r = square * square * self.polynomial(&LOG, square) + s_low * (s_high + s);
        let square = s_high * s_high;
        let sum_high = self.high(square + 3.0 + r);
        let sum_low = r - ((sum_high - 3.0) - square);

        // Their product, and its product with 2 / (3 ln 2).
        let (u, v) = (s_high * sum_high, s_low * sum_high + sum_low * s);
        let product_high = self.high(u + v);
        let product_low = v - (product_high - u);
        let [base_high, base_low] = self
            .in_two(LOG2_ONE_AND_HALF)
            .map(|part| is_middle.select(self.number(part), self.number(0.0)));
        let scale = self.in_two(SCALE);
        let z_high = product_high * scale[0];
        let z_low = product_high * scale[1] + product_low * (scale[0] + scale[1]) + base_low;
        let high = self.high(((z_high + z_low) + base_high) + exponent);
        let low = z_low - (((high - exponent) - base_high) - z_high);
        [high, low]
    }

    /// Returns 2^(high + low).
    fn exp2(self, high: Val<'k>, low: Val<'k>) -> Val<'k> {
        let (whole, n) = self.rounded(high + low);
        let high = high - whole;
        let t = self.high(low + high);
        let [ln_2_high, ln_2_low] = self.in_two(LN_2);
        let u = t * ln_2_high;
        let v = (low - (t - high)) * std::f64::consts::LN_2 + t * ln_2_low;
        let z = u + v;
        let w = v - (z - u);
        let square = z * z;
        let t = z - square * self.polynomial(&EXP, square);
        let r = (z * t) / (t - 2.0) - (w + z * w);
        self.scaled(self.number(1.0) - (r - z), n)
    }
}

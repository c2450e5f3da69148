//! Powers of `f32`: 2^(y log2 |x|), computed in `f64`, because the exponential multiplies the error of the product.

use super::f32::WHOLE;
use super::polynomial;
use crate::level::Arithmetic;

/// Coefficients of the base-2 logarithm of m in powers of f^2, where f = (m - 1) / (m + 1), the highest first: 2 /
/// (ln 2 (2 k + 1)). The omitted terms are below 2e-12 of the sum.
const LOG: [f64; 7] = {
    let mut terms = [0.0; 7];
    let mut index = 0;
    while index < 7 {
        terms[index] = 2.0 * std::f64::consts::LOG2_E / (13 - 2 * index) as f64;
        index += 1;
    }
    terms
};

/// Coefficients of 2^r, the highest first: (ln 2)^k / k!. The omitted terms are below 3e-10 for r up to 1/2.
const EXP: [f64; 9] = {
    let mut terms = [1.0; 9];
    let mut index = 8;
    while index > 0 {
        terms[index - 1] = terms[index] * std::f64::consts::LN_2 / (9 - index) as f64;
        index -= 1;
    }
    terms
};

/// With a larger exponent, the result or its scale may be subnormal or overflow.
const EXPONENT_MAX: f64 = 125.0;

/// Returns x^y, and whether the result is valid. It is not if x is subnormal or not finite, y is not finite, or the
/// result is subnormal or too large.
#[inline(always)]
pub fn power_usual<A: Arithmetic>(x: f32, y: f32) -> (f32, bool) {
    /// The mantissa is scaled to between the roots of 1/2 and 2.
    const ROOT_HALF: u32 = 0x3f35_04f3;
    let (is_zero, far) = (x == 0.0, x.abs());
    let far = if is_zero { 1.0 } else { far };
    let shifted = far.to_bits().wrapping_sub(ROOT_HALF);
    let e = f64::from(((shifted as i32) >> 23) as f32);
    let m = f64::from(f32::from_bits(
        (shifted & 0x007f_ffff).wrapping_add(ROOT_HALF),
    ));
    let f = (m - 1.0) / (m + 1.0);
    let log = A::mul_add(polynomial::<A, f64>(&LOG, f * f), f, e);
    let exponent = f64::from(y) * log;
    let is_usual = (f32::MIN_POSITIVE..=f32::MAX).contains(&far) && exponent.abs() <= EXPONENT_MAX;

    let whole = (exponent as f32) + WHOLE;
    let n = whole - WHOLE;
    let fraction = polynomial::<A, f64>(&EXP, exponent - f64::from(n)) as f32;
    // The shift drops the bits of `WHOLE`; the rest is added to the exponent.
    let scale = (whole.to_bits() << 23).wrapping_add(1_f32.to_bits());
    let found = fraction * f32::from_bits(scale);

    let half = y * 0.5;
    let (is_whole, is_even) = (y.floor() == y, half.floor() == half);
    let of_zero = if y > 0.0 { 0.0 } else { f32::INFINITY };
    let of_zero = if y == 0.0 { 1.0 } else { of_zero };
    let found = if is_zero { of_zero } else { found };
    // The result has the sign of x if y is odd.
    let sign = if is_whole && !is_even {
        x.to_bits() & (1 << 31)
    } else {
        0
    };
    let found = f32::from_bits(found.to_bits() | sign);
    let is_real = is_whole || is_zero || x > 0.0;
    (if is_real { found } else { f32::NAN }, is_usual)
}

/// x^y for any x and y.
#[inline(always)]
pub fn power<A: Arithmetic>(x: f32, y: f32) -> f32 {
    match power_usual::<A>(x, y) {
        (found, true) => found,
        _ => x.powf(y),
    }
}

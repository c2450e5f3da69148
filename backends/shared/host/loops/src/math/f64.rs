//! Functions of `f64`. All others use the standard library, element by element.

use super::polynomial;
use crate::level::Arithmetic;

/// ln 2 in two parts. The first has 32 bits: its product with an exponent is exact.
const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];
/// 1.5 * 2^52: adding it rounds to a whole number, which then lies in the low bits.
const WHOLE: f64 = 6_755_399_441_055_744.0;

/// The reciprocals of the factorials, from 13 down to 2.
const TERMS: [f64; 12] = {
    let mut terms = [0.5; 12];
    let mut index = 11;
    while index > 0 {
        terms[index - 1] = terms[index] / (14 - index) as f64;
        index -= 1;
    }
    terms
};

/// Returns e^x / 2^n, and n with [`WHOLE`] added.
#[inline(always)]
fn exp_parts<A: Arithmetic>(x: f64) -> (f64, f64) {
    let whole = A::mul_add(x, std::f64::consts::LOG2_E, WHOLE);
    let n = whole - WHOLE;
    let f = A::mul_add(n, -LN_2[0], x);
    let f = A::mul_add(n, -LN_2[1], f);
    let p = polynomial::<A, f64>(&TERMS, f);
    (A::mul_add(p, f * f, f) + 1.0, whole)
}

/// e^x, if [`exp_is_usual`].
#[inline(always)]
pub fn exp_usual<A: Arithmetic>(x: f64) -> f64 {
    let (fraction, whole) = exp_parts::<A>(x);
    let scale = (whole.to_bits() << 52).wrapping_add(1_f64.to_bits());
    fraction * f64::from_bits(scale)
}

/// Returns `true` if neither the result nor its scale overflows or is subnormal.
#[inline(always)]
pub fn exp_is_usual(x: f64) -> bool {
    x.abs() <= 708.0
}

/// e^x for any x. The scale is applied in two halves, so that subnormal results are correct.
#[inline(always)]
pub fn exp<A: Arithmetic>(x: f64) -> f64 {
    // NaN is preserved.
    let x = if x < -746.0 { -746.0 } else { x };
    let x = if x > 710.0 { 710.0 } else { x };
    let (fraction, whole) = exp_parts::<A>(x);
    let n = whole.to_bits().wrapping_sub(WHOLE.to_bits()) as i64;
    let half = n >> 1;
    let scale = |n: i64| f64::from_bits(n.wrapping_add(1023).wrapping_shl(52) as u64);
    fraction * scale(half) * scale(n.wrapping_sub(half))
}

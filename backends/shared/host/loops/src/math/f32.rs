//! Functions of `f32`.

use super::polynomial;
use crate::level::Arithmetic;

/// The base-2 logarithm of e.
pub const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 in two parts. The first has so few bits that its product with an exponent is exact.
pub const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
/// 1.5 * 2^23: adding it rounds to a whole number, which then lies in the low bits.
pub const WHOLE: f32 = 12_582_912.0;

/// Coefficients of (e^f - 1 - f) / f^2, the highest first (Cephes).
pub const EXP: [f32; 6] = [
    1.987_569_1e-4,
    1.398_199_9e-3,
    8.333_452e-3,
    4.166_579_6e-2,
    1.666_666_5e-1,
    0.5,
];

/// Coefficients of (tanh x - x) / x^3 in powers of x^2, the highest first (after N. Juffa).
pub const TANH: [f32; 4] = [
    1.573_944e-2,
    -5.230_255_8e-2,
    1.331_524_7e-1,
    -3.333_276_8e-1,
];

/// e^f, for f between -ln 2 / 2 and ln 2 / 2.
#[inline(always)]
fn exp_fraction<A: Arithmetic>(f: f32) -> f32 {
    A::mul_add(polynomial::<A, f32>(&EXP, f), f * f, f) + 1.0
}

/// Returns the exponent of two in e^x (a whole number, with [`WHOLE`] added), and the remainder of x.
#[inline(always)]
fn exp_parts<A: Arithmetic>(x: f32) -> (f32, f32) {
    let whole = A::mul_add(x, LOG2_E, WHOLE);
    let n = whole - WHOLE;
    let f = A::mul_add(n, -LN_2[0], x);
    (whole, A::mul_add(n, -LN_2[1], f))
}

/// e^x for x between -87 and 87: neither the result nor its scale overflows or is subnormal.
#[inline(always)]
fn exp_usual<A: Arithmetic>(x: f32) -> f32 {
    let (whole, f) = exp_parts::<A>(x);
    // The shift drops the bits of `WHOLE`; the rest is added to the exponent.
    let scale = (whole.to_bits() << 23).wrapping_add(1_f32.to_bits());
    exp_fraction::<A>(f) * f32::from_bits(scale)
}

/// e^x for any x. The scale is applied in two halves, so that subnormal results are correct.
#[inline(always)]
pub fn exp<A: Arithmetic>(x: f32) -> f32 {
    // NaN is preserved.
    let x = if x < -104.0 { -104.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    let (whole, f) = exp_parts::<A>(x);
    let n = whole.to_bits().wrapping_sub(WHOLE.to_bits()) as i32;
    let half = n >> 1;
    let scale = |n: i32| f32::from_bits(n.wrapping_add(127).wrapping_shl(23) as u32);
    exp_fraction::<A>(f) * scale(half) * scale(n.wrapping_sub(half))
}

/// ln x for any x (Cephes).
#[inline(always)]
pub fn log<A: Arithmetic>(x: f32) -> f32 {
    const SCALE: f32 = 8_388_608.0;
    let small = x < f32::MIN_POSITIVE;
    let found = log_scaled::<A>(
        if small { x * SCALE } else { x },
        if small { -23.0 } else { 0.0 },
    );
    let found = if x == f32::INFINITY { x } else { found };
    let found = if x == 0.0 { f32::NEG_INFINITY } else { found };
    if x >= 0.0 { found } else { f32::NAN }
}

/// ln x + exponent * ln 2, for a usual x.
#[inline(always)]
fn log_scaled<A: Arithmetic>(x: f32, exponent: f32) -> f32 {
    /// The mantissa is scaled to between the roots of 1/2 and 2.
    const ROOT_HALF: u32 = 0x3f35_04f3;
    let shifted = x.to_bits().wrapping_sub(ROOT_HALF);
    let e = ((shifted as i32) >> 23) as f32 + exponent;
    let m = f32::from_bits((shifted & 0x007f_ffff).wrapping_add(ROOT_HALF)) - 1.0;
    let z = m * m;
    let p = A::mul_add(7.037_683_6e-2, m, -1.151_461e-1);
    let p = A::mul_add(p, m, 1.167_699_9e-1);
    let p = A::mul_add(p, m, -1.242_014_1e-1);
    let p = A::mul_add(p, m, 1.424_932_3e-1);
    let p = A::mul_add(p, m, -1.666_805_8e-1);
    let p = A::mul_add(p, m, 2.000_071_5e-1);
    let p = A::mul_add(p, m, -2.499_999_4e-1);
    let p = A::mul_add(p, m, 3.333_333e-1);
    let y = A::mul_add(e, LN_2[1], p * m * z);
    let y = A::mul_add(-0.5, z, y);
    A::mul_add(e, LN_2[0], m + y)
}

/// Half of pi in two parts. The first has 33 bits: its product with a number of quarters is exact.
const QUARTER: [f64; 2] = [1.570_796_326_734_125_6, 6.077_100_506_506_192e-11];

/// Returns the quarter of x, and the distance from its middle.
#[inline(always)]
fn quarter(x: f32) -> (u64, f64) {
    const WHOLE: f64 = 6_755_399_441_055_744.0;
    let x = f64::from(x);
    let whole = x * std::f64::consts::FRAC_2_PI + WHOLE;
    let n = whole - WHOLE;
    (whole.to_bits(), x - n * QUARTER[0] - n * QUARTER[1])
}

/// The sine of (quarters + r), for r within a quarter. Its few terms are exact enough in `f64` (FreeBSD's `k_sinf`).
#[inline(always)]
fn sine_of(quarters: u64, r: f64) -> f32 {
    let z = r * r;
    let s = 2.718_311_493_989_822e-6;
    let s = s * z - 1.983_933_483_609_663e-4;
    let s = s * z + 8.333_329_385_889_463e-3;
    let s = s * z - 1.666_666_664_162_652_4e-1;
    let sine = r + r * z * s;
    let c = 2.439_044_879_627_741_4e-5;
    let c = c * z - 1.388_676_377_460_993e-3;
    let c = c * z + 4.166_662_332_373_906e-2;
    let c = c * z - 4.999_999_972_510_31e-1;
    let cosine = 1.0 + z * c;
    let found = if quarters & 1 == 0 { sine } else { cosine };
    let sign = (quarters & 2) << 62;
    f64::from_bits(found.to_bits() ^ sign) as f32
}

/// Returns `true` if x is so small that the number of quarters is exact. Greater angles use the system's functions.
#[inline(always)]
pub fn angle_is_usual(x: f32) -> bool {
    x.abs() <= 1e6
}

/// The sine of a usual x.
#[inline(always)]
pub fn sin_usual(x: f32) -> f32 {
    let (quarters, r) = quarter(x);
    // Zero keeps its sign.
    if x == 0.0 { x } else { sine_of(quarters, r) }
}

/// The cosine of a usual x.
#[inline(always)]
pub fn cos_usual(x: f32) -> f32 {
    let (quarters, r) = quarter(x);
    sine_of(quarters.wrapping_add(1), r)
}

/// tanh x.
#[inline(always)]
pub fn tanh<A: Arithmetic>(x: f32) -> f32 {
    let s = x * x;
    let near = A::mul_add(polynomial::<A, f32>(&TANH, s) * s, x, x);
    let t = x.abs();
    let t = if t > 10.0 { 10.0 } else { t };
    let far = 1.0 - 2.0 / (exp_usual::<A>(2.0 * t) + 1.0);
    if t < 0.55 { near } else { far.copysign(x) }
}

/// The error function (after N. Juffa).
#[inline(always)]
pub fn erf<A: Arithmetic>(x: f32) -> f32 {
    let t = x.abs();
    // Beyond 4 the result is one.
    let t = if t > 4.0 { 4.0 } else { t };
    let s = t * t;
    let p = A::mul_add(-1.728_534_7e-5, t, 3.831_972e-4);
    let u = A::mul_add(-3.883_964_4e-3, t, 2.425_462_2e-2);
    let p = A::mul_add(p, s, u);
    let p = A::mul_add(p, t, -1.067_778_8e-1);
    let p = A::mul_add(p, t, -6.348_468_7e-1);
    let p = A::mul_add(p, t, -1.287_175_1e-1);
    let far = 1.0 - exp_usual::<A>(A::mul_add(p, t, -t));
    let q = A::mul_add(-5.967_617e-4, s, 4.991_194_2e-3);
    let q = A::mul_add(q, s, -2.676_813_5e-2);
    let q = A::mul_add(q, s, 1.128_199_2e-1);
    let q = A::mul_add(q, s, -3.761_253_4e-1);
    let q = A::mul_add(q, s, 1.283_791_7e-1);
    let near = A::mul_add(q, x, x);
    if t > 0.927_734_4 {
        far.copysign(x)
    } else {
        near
    }
}

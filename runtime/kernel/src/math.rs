//! Functions of floats that are composed of others: each is a helper function of kernels, so the CPU and all devices
//! compute the same operations.
//!
//! Up to the functions that they call (`exp`, `ln`, `sin`, `cos`), they have the same bits on every device. The polynomials
//! are those of Cephes (`atan`, `asin`) and FreeBSD (`asin` of `f64`).

/// Constants with a second part, which a float's digits do not hold.
mod constants {
    pub(super) mod single {
        pub(crate) const PI: [f32; 2] = [std::f32::consts::PI, -8.742_278e-8];
        /// The middle of an octave: the root of 1/2.
        pub(crate) const MIDDLE: u32 = 0x3f35_04f3;
        pub(crate) const DIGITS: u32 = 23;
        pub(crate) const BIAS: i32 = 127;
        /// The log10 of 2. The product of the first part with an exponent is exact.
        pub(crate) const LOG10_2: [f32; 2] = [0.301_025_4, 4.605_039e-6];
        /// From here on the result of `exp2` is 0, or infinite.
        pub(crate) const EXP2_ENDS: [f32; 2] = [-160.0, 130.0];
    }

    pub(super) mod double {
        pub(crate) const PI: [f64; 2] = [std::f64::consts::PI, 1.224_646_799_147_353_2e-16];
        pub(crate) const MIDDLE: u64 = 0x3fe6_a09e_667f_3bcd;
        pub(crate) const DIGITS: u64 = 52;
        pub(crate) const BIAS: i64 = 1023;
        pub(crate) const LOG10_2: [f64; 2] = [3.010_299_956_638_391_4e-1, 1.420_502_322_726_61e-13];
        pub(crate) const EXP2_ENDS: [f64; 2] = [-1100.0, 1030.0];
    }
}

macro_rules! functions {
    ($float:ident, $word:ident, $whole:ident, $constants:ident: $($series:item)*) => {
        use super::constants::$constants::{BIAS, DIGITS, EXP2_ENDS, LOG10_2, MIDDLE, PI};
        use crate::kernel;
        use std::$float::consts;

        const PI_HIGH: $float = PI[0];
        const PI_LOW: $float = PI[1];
        const LOG10_2_HIGH: $float = LOG10_2[0];
        const LOG10_2_LOW: $float = LOG10_2[1];
        const EXP2_LEAST: $float = EXP2_ENDS[0];
        const EXP2_MOST: $float = EXP2_ENDS[1];
        const FAR: $float = 1e20;
        const SIGN: $word = 1 << ($word::BITS - 1);
        const FRACTION: $word = (1 << DIGITS) - 1;
        /// Subnormals times this are normal.
        const SCALE: $float = ((1 as $word) << (DIGITS + 2)) as $float;
        const SCALE_EXPONENT: $float = (DIGITS + 2) as $float;

        $($series)*

        /// `x` with the sign of `of`.
        #[kernel]
        pub(crate) fn copysign(x: $float, of: $float) -> $float {
            $float::from_bits((x.to_bits() & !SIGN) | (of.to_bits() & SIGN))
        }

        /// Rounded towards zero.
        #[kernel]
        pub(crate) fn trunc(x: $float) -> $float {
            if x < 0.0 { x.ceil() } else { x.floor() }
        }

        /// Rounded to the nearest integer, halves away from zero.
        #[kernel]
        pub(crate) fn round(x: $float) -> $float {
            let whole = trunc(x);
            let is_far = (x - whole).abs() >= 0.5;
            // Of 0.0 and -0.0 the sign remains.
            if is_far { whole + copysign(1.0, x) } else { whole }
        }

        /// The part behind the point.
        #[kernel]
        pub(crate) fn fract(x: $float) -> $float {
            x - trunc(x)
        }

        /// 1 with the sign, or NaN.
        #[kernel]
        pub(crate) fn signum(x: $float) -> $float {
            let one = copysign(1.0, x);
            if x == x { one } else { x }
        }

        /// To the power of an integer: the products that Rust's own function has.
        #[kernel]
        pub(crate) fn powi(x: $float, n: i32) -> $float {
            let mut left = (if n < 0 { -n } else { n }) as u32;
            let (mut base, mut product) = (x, 1.0);
            while left > 0 {
                if left & 1 == 1 {
                    product *= base;
                }
                base *= base;
                left >>= 1;
            }
            let reciprocal = 1.0 / product;
            if n < 0 { reciprocal } else { product }
        }

        /// The length of the hypotenuse, without overflow in between.
        #[kernel]
        pub(crate) fn hypot(x: $float, y: $float) -> $float {
            let (a, b) = (x.abs(), y.abs());
            let long = a.max(b);
            let ratio = a.min(b) / long;
            let length = long * (ratio * ratio + 1.0).sqrt();
            // Both are zero.
            let length = if long == 0.0 { long } else { length };
            let is_infinite = a == $float::INFINITY || b == $float::INFINITY;
            if is_infinite { $float::INFINITY } else { length }
        }

        /// The tangent.
        #[kernel]
        pub(crate) fn tan(x: $float) -> $float {
            x.sin() / x.cos()
        }

        /// The arctangent: of a number below an eighth turn by a series, of others by that of another number.
        #[kernel]
        pub(crate) fn atan(x: $float) -> $float {
            // The result does not change beyond; NaN remains.
            let a = x.abs().min(FAR);
            let (is_middle, is_far) = (a > ATAN_NEAR, a > 2.414_213_562_373_095);
            let over = if is_middle { a - 1.0 } else { a };
            let over = if is_far { -1.0 } else { over };
            let under = if is_middle { a + 1.0 } else { 1.0 };
            let under = if is_far { a } else { under };
            let t = over / under;
            let low = if is_middle { 0.25 * PI_LOW } else { 0.0 };
            let low = if is_far { 0.5 * PI_LOW } else { low };
            let high = if is_middle { 0.25 * PI_HIGH } else { 0.0 };
            let high = if is_far { 0.5 * PI_HIGH } else { high };
            let z = t * t;
            let found = high + (atan_series(z) * z * t + low + t);
            copysign(found, x)
        }

        /// The angle of a point.
        #[kernel]
        pub(crate) fn atan2(y: $float, x: $float) -> $float {
            let (a, b) = (x.abs(), y.abs());
            let (long, short) = (a.max(b), a.min(b));
            // Both may be zero, or infinite.
            let of_equal = if long == 0.0 { 0.0 } else { 1.0 };
            let quotient = short / long;
            let ratio = if short == long { of_equal } else { quotient };
            let angle = atan(ratio);
            let steep = 0.5 * PI_HIGH - (angle - 0.5 * PI_LOW);
            let angle = if b > a { steep } else { angle };
            let left = PI_HIGH - (angle - PI_LOW);
            let angle = if x.to_bits() >= SIGN { left } else { angle };
            // One is NaN.
            let sum = x + y;
            let angle = copysign(angle, y);
            if ratio == ratio { angle } else { sum }
        }

        /// The arcsine.
        #[kernel]
        pub(crate) fn asin(x: $float) -> $float {
            let a = x.abs();
            let is_near = a < 0.5;
            let z = if is_near { a * a } else { (1.0 - a) * 0.5 };
            let base = if is_near { a } else { z.sqrt() };
            let angle = base + base * (z * asin_series(z));
            let far = 0.5 * PI_HIGH - (2.0 * angle - 0.5 * PI_LOW);
            let found = if is_near { angle } else { far };
            copysign(found, x)
        }

        /// The arccosine.
        #[kernel]
        pub(crate) fn acos(x: $float) -> $float {
            let a = x.abs();
            let is_near = a < 0.5;
            let z = if is_near { a * a } else { (1.0 - a) * 0.5 };
            let base = if is_near { x } else { z.sqrt() };
            let angle = base + base * (z * asin_series(z));
            let near = 0.5 * PI_HIGH - (angle - 0.5 * PI_LOW);
            let left = PI_HIGH - (2.0 * angle - PI_LOW);
            let far = if x < 0.0 { left } else { 2.0 * angle };
            if is_near { near } else { far }
        }

        /// The hyperbolic sine.
        #[kernel]
        pub(crate) fn sinh(x: $float) -> $float {
            let a = x.abs();
            let z = a * a;
            let near = a + a * (z * sinh_series(z));
            let e = a.exp();
            let middle = 0.5 * e - 0.5 / e;
            // Half of the exponential may be finite if it is not. The difference is exact.
            let far = (a - 1.0).exp() * (0.5 * consts::E);
            let found = if a < 1.0 { near } else { middle };
            let found = if a > 20.0 { far } else { found };
            copysign(found, x)
        }

        /// The hyperbolic cosine.
        #[kernel]
        pub(crate) fn cosh(x: $float) -> $float {
            let a = x.abs();
            let e = a.exp();
            let middle = 0.5 * e + 0.5 / e;
            let far = (a - 1.0).exp() * (0.5 * consts::E);
            if a > 20.0 { far } else { middle }
        }

        /// Two to the power of a number: exact for integers.
        #[kernel]
        pub(crate) fn exp2(x: $float) -> $float {
            // NaN remains.
            let x = x.max(EXP2_LEAST).min(EXP2_MOST);
            let whole = (x + 0.5).floor();
            let found = ((x - whole) * consts::LN_2).exp();
            // In two steps, so that a subnormal result is rounded once.
            let n = whole as $whole;
            let (half, rest) = (n >> 1, n - (n >> 1));
            let first = $float::from_bits(((half + BIAS) << DIGITS) as $word);
            let second = $float::from_bits(((rest + BIAS) << DIGITS) as $word);
            found * first * second
        }

        /// The exponent of a positive number, and its significand between the roots of 1/2 and 2.
        #[kernel]
        pub(crate) fn parts(x: $float) -> ($float, $float) {
            let is_small = x < $float::MIN_POSITIVE;
            let scaled = if is_small { x * SCALE } else { x };
            let less = if is_small { SCALE_EXPONENT } else { 0.0 };
            let bits = scaled.to_bits() - MIDDLE;
            let exponent = ((bits as $whole) >> DIGITS) as $float - less;
            let significand = $float::from_bits((bits & FRACTION) + MIDDLE);
            (exponent, significand)
        }

        /// The logarithm to the base 2: exact for powers of two.
        #[kernel]
        pub(crate) fn log2(x: $float) -> $float {
            let (exponent, significand) = parts(x);
            let found = exponent + significand.ln() * consts::LOG2_E;
            let special = x.ln();
            let is_usual = x > 0.0 && x < $float::INFINITY;
            if is_usual { found } else { special }
        }

        /// The logarithm to the base 10.
        #[kernel]
        pub(crate) fn log10(x: $float) -> $float {
            let (exponent, significand) = parts(x);
            let low = exponent * LOG10_2_LOW + significand.ln() * consts::LOG10_E;
            let found = exponent * LOG10_2_HIGH + low;
            let special = x.ln();
            let is_usual = x > 0.0 && x < $float::INFINITY;
            if is_usual { found } else { special }
        }
    };
}

/// Functions of `f32`.
pub(crate) mod single {
    functions! { f32, u32, i32, single:
        /// The least number that the series of the arctangent is not for: the tangent of a sixteenth turn.
        const ATAN_NEAR: f32 = 0.414_213_56;

        /// (atan t - t) / t^3, of z = t^2.
        #[kernel]
        fn atan_series(z: f32) -> f32 {
            ((8.053_745e-2 * z - 0.138_776_86) * z + 0.199_777_1) * z - 0.333_329_5
        }

        /// (asin t - t) / t^3, of z = t^2.
        #[kernel]
        fn asin_series(z: f32) -> f32 {
            (((4.216_32e-2 * z + 2.418_131_1e-2) * z + 4.547_002_6e-2) * z + 7.495_3e-2) * z + 0.166_667_52
        }

        /// (sinh t - t) / t^3, of z = t^2.
        #[kernel]
        fn sinh_series(z: f32) -> f32 {
            (((2.505_210_8e-8 * z + 2.755_731_9e-6) * z + 1.984_127e-4) * z + 8.333_333e-3) * z + 0.166_666_67
        }
    }
}

/// Functions of `f64`.
pub(crate) mod double {
    functions! { f64, u64, i64, double:
        /// The least number that the series of the arctangent is not for.
        const ATAN_NEAR: f64 = 0.66;

        /// (atan t - t) / t^3, of z = t^2.
        #[kernel]
        fn atan_series(z: f64) -> f64 {
            let over = (((-8.750_608_600_031_904e-1 * z - 1.615_753_718_733_365e1) * z - 7.500_855_792_314_705e1) * z
                - 1.228_866_684_490_136_2e2) * z - 6.485_021_904_942_025e1;
            let under = ((((z + 2.485_846_490_142_306_3e1) * z + 1.650_270_098_316_988_5e2) * z
                + 4.328_810_604_912_903e2) * z + 4.853_903_996_359_137e2) * z + 1.945_506_571_482_614e2;
            over / under
        }

        /// (asin t - t) / t^3, of z = t^2.
        #[kernel]
        fn asin_series(z: f64) -> f64 {
            let over = ((((3.479_331_075_960_211_7e-5 * z + 7.915_349_942_898_145e-4) * z - 4.005_553_450_067_941e-2) * z
                + 2.012_125_321_348_629_3e-1) * z - 3.255_658_186_224_009e-1) * z + 1.666_666_666_666_666_6e-1;
            let under = (((7.703_815_055_590_194e-2 * z - 6.882_839_716_054_533e-1) * z + 2.020_945_760_233_505_7) * z
                - 2.403_394_911_734_414) * z + 1.0;
            over / under
        }

        /// (sinh t - t) / t^3, of z = t^2.
        #[kernel]
        fn sinh_series(z: f64) -> f64 {
            (((((((8.220_635_246_624_33e-18 * z + 2.811_457_254_345_520_6e-15) * z + 7.647_163_731_819_816e-13) * z
                + 1.605_904_383_682_161_3e-10) * z + 2.505_210_838_544_172e-8) * z + 2.755_731_922_398_589e-6) * z
                + 1.984_126_984_126_984e-4) * z + 8.333_333_333_333_333e-3) * z + 1.666_666_666_666_666_6e-1
        }
    }
}

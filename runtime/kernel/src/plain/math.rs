//! Functions of numbers as plain Rust. Those that Rust rounds exactly are Rust's own; others are composed ([`crate::math`]),
//! as on all devices.

use super::{abs, cos, not, rem, sin};
use crate::integers;
use crate::math::{double, single};
use crate::number::{Float, Int, Number};

macro_rules! exact {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name<T: Float>(a: T) -> T {
            a.apply(f32::$name, f64::$name)
        }
    )*};
}

exact! {
    /// Rounded to the nearest integer, halves away from zero.
    round;
    /// Rounded towards zero.
    trunc;
    /// The part behind the point.
    fract;
    /// 1 with the sign, or NaN.
    signum;
    /// `1 / a`.
    recip;
    /// Radians as degrees.
    to_degrees;
    /// Degrees as radians.
    to_radians;
}

macro_rules! composed {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name<T: Float>(a: T) -> T {
            a.apply(single::$name::plain, double::$name::plain)
        }
    )*};
}

composed! {
    /// The tangent of radians.
    tan;
    /// The arctangent.
    atan;
    /// The arcsine.
    asin;
    /// The arccosine.
    acos;
    /// The hyperbolic sine.
    sinh;
    /// The hyperbolic cosine.
    cosh;
    /// Two to the power of the value.
    exp2;
    /// The logarithm to the base 2.
    log2;
    /// The logarithm to the base 10.
    log10;
}

/// `a` with the sign of `of`.
#[inline(always)]
pub fn copysign<T: Float>(a: T, of: T) -> T {
    a.apply_with(of, f32::copysign, f64::copysign)
}

/// The length of the hypotenuse.
#[inline(always)]
pub fn hypot<T: Float>(a: T, b: T) -> T {
    a.apply_with(b, single::hypot::plain, double::hypot::plain)
}

/// The angle of the point `(x, y)`.
#[inline(always)]
pub fn atan2<T: Float>(y: T, x: T) -> T {
    y.apply_with(x, single::atan2::plain, double::atan2::plain)
}

/// The sine and the cosine.
#[inline(always)]
pub fn sin_cos<T: Float>(a: T) -> (T, T) {
    (sin(a), cos(a))
}

/// The logarithm to a base.
#[inline(always)]
pub fn log<T: Float>(a: T, base: T) -> T {
    a.apply_with(base, f32::log, f64::log)
}

/// To the power of an integer.
#[inline(always)]
pub fn powi<T: Float>(a: T, n: i32) -> T {
    a.apply(|a| single::powi::plain(a, n), |a| double::powi::plain(a, n))
}

macro_rules! tests {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name<T: Float>(a: T) -> bool {
            // A half has a sign, and is finite, as an `f32`.
            a.cast::<f64>().$name()
        }
    )*};
}

tests! {
    /// Neither infinite nor NaN.
    is_finite;
    /// Infinite.
    is_infinite;
    /// Whether the sign bit is set.
    is_sign_negative;
    /// Whether the sign bit is not set.
    is_sign_positive;
}

/// The rest of a division that is not negative.
#[inline(always)]
pub fn rem_euclid<T: Number>(a: T, by: T) -> T {
    let rest = rem(a, by);
    match rest < T::default() {
        true => rest.add(abs(by)),
        false => rest,
    }
}

/// The number of bits of an integer.
const fn width<T: Int>() -> u32 {
    8 * T::DTYPE.size() as u32
}

/// The number of bits that are set.
#[inline(always)]
pub fn count_ones<T: Int>(a: T) -> u32 {
    a.bits().count_ones()
}

/// The number of bits that are not set.
#[inline(always)]
pub fn count_zeros<T: Int>(a: T) -> u32 {
    width::<T>() - count_ones(a)
}

/// The number of zeros before the highest bit that is set.
#[inline(always)]
pub fn leading_zeros<T: Int>(a: T) -> u32 {
    a.bits().leading_zeros() - (64 - width::<T>())
}

/// The number of zeros behind the lowest bit that is set.
#[inline(always)]
pub fn trailing_zeros<T: Int>(a: T) -> u32 {
    Ord::min(a.bits().trailing_zeros(), width::<T>())
}

/// The bits in the other order.
#[inline(always)]
pub fn reverse_bits<T: Int>(a: T) -> T {
    T::of_bits(a.bits().reverse_bits() >> (64 - width::<T>()))
}

/// The bits, rotated to the left.
#[inline(always)]
pub fn rotate_left<T: Int>(a: T, by: u32) -> T {
    a.rotated(by)
}

/// The bits, rotated to the right.
#[inline(always)]
pub fn rotate_right<T: Int>(a: T, by: u32) -> T {
    a.rotated(0_u32.wrapping_sub(by) % width::<T>())
}

macro_rules! of_integers {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $of:ty),*) -> $result:ty;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name<T: Int>($($argument: $of),*) -> $result {
            integers::$name::plain($($argument),*)
        }
    )*};
}

of_integers! {
    /// To the power of an integer. Wraps.
    pow(a: T, n: u32) -> T;
    /// The quotient, rounded up.
    div_ceil(a: T, by: T) -> T;
    /// The quotient whose rest is not negative.
    div_euclid(a: T, by: T) -> T;
    /// The least multiple of a number that is not less.
    next_multiple_of(a: T, of: T) -> T;
    /// Whether one bit is set.
    is_power_of_two(a: T) -> bool;
    /// The least power of two that is not less.
    next_power_of_two(a: T) -> T;
    /// The place of the highest bit that is set.
    ilog2(a: T) -> u32;
}

/// The absolute value of an integer, which its unsigned type always has.
#[inline(always)]
pub fn unsigned_abs<T: Int>(a: T) -> T::Unsigned {
    a.distance(T::default())
}

/// Whether a number is greater than zero.
#[inline(always)]
pub fn is_positive<T: Int>(a: T) -> bool {
    a > T::default()
}

/// Whether a number is less than zero.
#[inline(always)]
pub fn is_negative<T: Int>(a: T) -> bool {
    a < T::default()
}

/// The number of ones before the highest bit that is not set.
#[inline(always)]
pub fn leading_ones<T: Int>(a: T) -> u32 {
    leading_zeros(not(a))
}

/// The number of ones behind the lowest bit that is not set.
#[inline(always)]
pub fn trailing_ones<T: Int>(a: T) -> u32 {
    trailing_zeros(not(a))
}

/// The distance of two integers.
#[inline(always)]
pub fn abs_diff<T: Int>(a: T, b: T) -> T::Unsigned {
    a.distance(b)
}

/// The sum, or the end of the range.
#[inline(always)]
pub fn saturating_add<T: Int>(a: T, b: T) -> T {
    a.up_to(b)
}

/// The difference, or the end of the range.
#[inline(always)]
pub fn saturating_sub<T: Int>(a: T, b: T) -> T {
    a.down_to(b)
}

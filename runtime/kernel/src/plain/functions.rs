//! Operations on numbers.

use crate::number::{Bits, Cast, Float, Int, Number};

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident<$bound:ident>($($argument:ident),*);)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name<T: $bound>($($argument: T),*) -> T {
            T::$name($($argument),*)
        }
    )*};
}

operations! {
    /// `a + b`.
    add<Number>(a, b);
    /// `a - b`.
    sub<Number>(a, b);
    /// `a * b`.
    mul<Number>(a, b);
    /// `a / b`.
    div<Number>(a, b);
    /// `a % b`.
    rem<Number>(a, b);
    /// `-a`.
    neg<Number>(a);
    /// The absolute value.
    abs<Number>(a);
    /// The smaller value, NaN if one is.
    min<Number>(a, b);
    /// The greater value, NaN if one is.
    max<Number>(a, b);
    /// `a & b`.
    and<Bits>(a, b);
    /// `a | b`.
    or<Bits>(a, b);
    /// `a ^ b`.
    xor<Bits>(a, b);
    /// `!a`.
    not<Bits>(a);
}

/// `a << b`.
#[inline(always)]
pub fn shl<T: Int, U: Int>(a: T, b: U) -> T {
    a.shl(b)
}

/// `a >> b`.
#[inline(always)]
pub fn shr<T: Int, U: Int>(a: T, b: U) -> T {
    a.shr(b)
}

macro_rules! comparisons {
    ($($name:ident $operator:tt;)*) => {$(
        #[doc = concat!("`a ", stringify!($operator), " b`.")]
        #[inline(always)]
        pub fn $name<T: PartialOrd>(a: T, b: T) -> bool {
            a $operator b
        }
    )*};
}

comparisons! { eq ==; ne !=; lt <; le <=; gt >; ge >=; }

macro_rules! floats {
    ($($(#[$doc:meta])* $name:ident: $narrow:expr, $wide:expr;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name<T: Float>(a: T) -> T {
            a.apply($narrow, $wide)
        }
    )*};
}

floats! {
    /// The square root.
    sqrt: f32::sqrt, f64::sqrt;
    /// e to the power of the value.
    exp: f32::exp, f64::exp;
    /// The natural logarithm.
    ln: f32::ln, f64::ln;
    /// The sine of radians.
    sin: f32::sin, f64::sin;
    /// The cosine of radians.
    cos: f32::cos, f64::cos;
    /// The hyperbolic tangent.
    tanh: f32::tanh, f64::tanh;
    /// The error function.
    erf: |x| libm::erf(x.into()) as f32, libm::erf;
    /// Rounded down.
    floor: f32::floor, f64::floor;
    /// Rounded up.
    ceil: f32::ceil, f64::ceil;
}

/// `a` to the power of `b`.
#[inline(always)]
pub fn powf<T: Float>(a: T, b: T) -> T {
    a.power(b)
}

/// `a * b + c`, rounded once.
#[inline(always)]
pub fn mul_add<T: Float>(a: T, b: T, c: T) -> T {
    a.fused(b, c)
}

/// `value as T`.
#[inline(always)]
pub fn cast<T: Number, C: Cast>(value: C) -> T {
    value.cast()
}

/// `T::from(value)`.
#[inline(always)]
pub fn convert<T: From<U>, U>(value: U) -> T {
    T::from(value)
}

/// The bits of a float as an unsigned integer.
#[inline(always)]
pub fn to_bits<T: Float>(value: T) -> T::Word {
    bit_cast(value)
}

/// A float from its bits as an unsigned integer, and back.
#[inline(always)]
pub fn bit_cast<T: Number, U: Number>(value: U) -> T {
    const {
        assert!(
            T::DTYPE.size() == U::DTYPE.size(),
            "both types have the same size"
        );
    };
    T::of_bits(value.bits())
}

/// `a` if the condition holds, otherwise `b`. Both were computed.
#[inline(always)]
pub fn select<T>(condition: bool, a: T, b: T) -> T {
    if condition { a } else { b }
}

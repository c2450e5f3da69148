//! Functions of numbers, composed of operations of the IR.

use millstream_ir::ssa::Val;
use millstream_ir::{BinaryOp, CompareOp, DType, UnaryOp};

use super::functions::{abs, add, cos, gt, lt, narrow, not, rem, sin, wide};
use super::{Tracer, V, lit, select};
use crate::integers;
use crate::math::{double, single};
use crate::number::{Float, Int, Number};

/// Calls the function for `f32` or `f64`. Halves are computed as `f32`.
macro_rules! by_width {
    ($k:ident, $t:ident, $name:ident($($argument:ident),* $(; $other:ident)?)) => {
        match $t::DTYPE.computed() {
            DType::F64 => {
                narrow(double::$name::traced($k, $(V::<f64>::new(wide($argument)),)* $($other)?).val())
            }
            _ => narrow(single::$name::traced($k, $(V::<f32>::new(wide($argument)),)* $($other)?).val()),
        }
    };
}

macro_rules! composed {
    ($($(#[$doc:meta])* $name:ident($($argument:ident),*);)*) => {$(
        $(#[$doc])*
        pub fn $name<'k, T: Float>(k: Tracer<'k>, $($argument: V<'k, T>),*) -> V<'k, T> {
            by_width!(k, T, $name($($argument),*))
        }
    )*};
}

composed! {
    /// Rounded to the nearest integer, halves away from zero.
    round(a);
    /// Rounded towards zero.
    trunc(a);
    /// The part behind the point.
    fract(a);
    /// 1 with the sign, or NaN.
    signum(a);
    /// The length of the hypotenuse.
    hypot(a, b);
    /// The tangent of radians.
    tan(a);
    /// The arctangent.
    atan(a);
    /// The angle of the point `(x, y)`.
    atan2(y, x);
    /// The arcsine.
    asin(a);
    /// The arccosine.
    acos(a);
    /// The hyperbolic sine.
    sinh(a);
    /// The hyperbolic cosine.
    cosh(a);
    /// Two to the power of the value.
    exp2(a);
    /// The logarithm to the base 2.
    log2(a);
    /// The logarithm to the base 10.
    log10(a);
}

/// `a` with the sign of `of`: by the bits of the type, since a device may lose the sign of a NaN in a cast.
pub fn copysign<'k, T: Float>(k: Tracer<'k>, a: V<'k, T>, of: V<'k, T>) -> V<'k, T> {
    let [a, of] = [a, of].map(|it| it.val().bits(T::DTYPE.unsigned()));
    let sign = k.builder.bits(a.of(), 1 << (width(T::DTYPE) - 1));
    V::new(((a & !sign) | (of & sign)).bits(T::DTYPE))
}

/// `1 / a`.
pub fn recip<'k, T: Float>(k: Tracer<'k>, a: V<'k, T>) -> V<'k, T> {
    let one = k.builder.constant(1.0_f32).cast(T::DTYPE.computed());
    narrow(one / wide(a))
}

/// Radians as degrees.
pub fn to_degrees<'k, T: Float>(_: Tracer<'k>, a: V<'k, T>) -> V<'k, T> {
    narrow(match T::DTYPE {
        DType::F64 => wide(a) * (180.0 / std::f64::consts::PI),
        _ => wide(a) * 1_f32.to_degrees(),
    })
}

/// Degrees as radians.
pub fn to_radians<'k, T: Float>(_: Tracer<'k>, a: V<'k, T>) -> V<'k, T> {
    narrow(match T::DTYPE {
        DType::F64 => wide(a) * (std::f64::consts::PI / 180.0),
        _ => wide(a) * 1_f32.to_radians(),
    })
}

/// The sine and the cosine.
pub fn sin_cos<'k, T: Float>(_: Tracer<'k>, a: V<'k, T>) -> (V<'k, T>, V<'k, T>) {
    (sin(a), cos(a))
}

/// Returns `a` to the power of a constant: the products of the function's loop. At most 62, as the exponent has 32 bits.
fn product<'k>(one: Val<'k>, a: Val<'k>, n: u32) -> Val<'k> {
    let (mut base, mut found) = (a, None);
    for bit in 0..u32::BITS - n.leading_zeros() {
        if bit > 0 {
            base = base * base;
        }
        if n >> bit & 1 == 1 {
            found = Some(found.map_or(base, |found: Val<'k>| found * base));
        }
    }
    found.unwrap_or(one)
}

/// To the power of an integer.
pub fn powi<'k, T: Float>(k: Tracer<'k>, a: V<'k, T>, n: V<'k, i32>) -> V<'k, T> {
    let Some(bits) = n.constant() else {
        return by_width!(k, T, powi(a; n));
    };
    let n = bits as u32 as i32;
    let one = k.builder.constant(1.0_f32).cast(T::DTYPE.computed());
    let product = product(one, wide(a), n.unsigned_abs());
    narrow(if n < 0 { one / product } else { product })
}

/// Neither infinite nor NaN.
pub fn is_finite<'k, T: Float>(_: Tracer<'k>, a: V<'k, T>) -> V<'k, bool> {
    V::new(wide(abs(a)).compare(CompareOp::Lt, f64::INFINITY))
}

/// Infinite.
pub fn is_infinite<'k, T: Float>(_: Tracer<'k>, a: V<'k, T>) -> V<'k, bool> {
    V::new(wide(abs(a)).compare(CompareOp::Eq, f64::INFINITY))
}

/// Whether the sign bit is set.
pub fn is_sign_negative<'k, T: Float>(k: Tracer<'k>, a: V<'k, T>) -> V<'k, bool> {
    let bits = a.val().bits(T::DTYPE.unsigned());
    let sign = k.builder.bits(bits.of(), 1 << (width(T::DTYPE) - 1));
    V::new(bits.compare(CompareOp::Ge, sign))
}

/// Whether the sign bit is not set.
pub fn is_sign_positive<'k, T: Float>(k: Tracer<'k>, a: V<'k, T>) -> V<'k, bool> {
    not(is_sign_negative(k, a))
}

/// The rest of a division that is not negative.
pub fn rem_euclid<'k, T: Number>(k: Tracer<'k>, a: V<'k, T>, by: V<'k, T>) -> V<'k, T> {
    let rest = rem(a, by);
    select(lt(rest, lit(k, T::default())), add(rest, abs(by)), rest)
}

/// The number of bits of a type.
fn width(dtype: DType) -> u32 {
    8 * dtype.size() as u32
}

/// An integer as an unsigned one of the same bits.
fn unsigned<'k, T: Int>(a: V<'k, T>) -> Val<'k> {
    a.val().bits(T::DTYPE.unsigned())
}

/// Returns these bits in each part of an unsigned integer: `0x0f` of a byte is `0x0f0f0f0f` of four.
fn each<'k>(k: Tracer<'k>, of: Val<'k>, byte: u64) -> Val<'k> {
    let all = byte * (u64::MAX / 0xff);
    k.builder.bits(of.of(), all >> (64 - width(of.of().dtype)))
}

fn shifted<'k>(a: Val<'k>, op: BinaryOp, by: u32) -> Val<'k> {
    a.binary(op, i64::from(by))
}

/// Counts the bits of an unsigned integer: in pairs, in halves of bytes, in bytes, then of all bytes.
fn ones<'k>(k: Tracer<'k>, a: Val<'k>) -> Val<'k> {
    let down = |a, by| shifted(a, BinaryOp::Shr, by);
    let a = a - (down(a, 1) & each(k, a, 0x55));
    let a = (a & each(k, a, 0x33)) + (down(a, 2) & each(k, a, 0x33));
    let a = (a + down(a, 4)) & each(k, a, 0x0f);
    down(a * each(k, a, 0x01), width(a.of().dtype) - 8)
}

fn count<'k>(a: Val<'k>) -> V<'k, u32> {
    V::new(a.cast(DType::U32))
}

/// The number of bits that are set.
pub fn count_ones<'k, T: Int>(k: Tracer<'k>, a: V<'k, T>) -> V<'k, u32> {
    count(ones(k, unsigned(a)))
}

/// The number of bits that are not set.
pub fn count_zeros<'k, T: Int>(k: Tracer<'k>, a: V<'k, T>) -> V<'k, u32> {
    count(ones(k, !unsigned(a)))
}

/// The number of zeros before the highest bit that is set.
pub fn leading_zeros<'k, T: Int>(k: Tracer<'k>, a: V<'k, T>) -> V<'k, u32> {
    // All bits below the highest one.
    let mut filled = unsigned(a);
    let mut by = 1;
    while by < width(T::DTYPE) {
        filled = filled | shifted(filled, BinaryOp::Shr, by);
        by *= 2;
    }
    count(ones(k, !filled))
}

/// The number of zeros behind the lowest bit that is set.
pub fn trailing_zeros<'k, T: Int>(k: Tracer<'k>, a: V<'k, T>) -> V<'k, u32> {
    let a = unsigned(a);
    count(ones(k, !a & (a - 1)))
}

/// The bits in the other order.
pub fn reverse_bits<'k, T: Int>(k: Tracer<'k>, a: V<'k, T>) -> V<'k, T> {
    let mut all = unsigned(a);
    let swapped = |a: Val<'k>, low: Val<'k>, by| {
        let up = shifted(a & low, BinaryOp::Shl, by);
        up | (shifted(a, BinaryOp::Shr, by) & low)
    };
    for (by, byte) in [(1, 0x55), (2, 0x33), (4, 0x0f)] {
        all = swapped(all, each(k, all, byte), by);
    }
    let mut by = 8;
    while by < width(T::DTYPE) {
        let low = (u64::MAX / ((1 << by) + 1)) >> (64 - width(T::DTYPE));
        all = swapped(all, k.builder.bits(all.of(), low), by);
        by *= 2;
    }
    V::new(all.bits(T::DTYPE))
}

/// Rotates by a number of bits up, which is reduced to less than all of them.
fn rotated<'k, T: Int>(a: V<'k, T>, by: Val<'k>) -> V<'k, T> {
    let (a, bits) = (unsigned(a), i64::from(width(T::DTYPE)));
    let of = a.of().dtype;
    let by = by & (bits - 1);
    let up = a.binary(BinaryOp::Shl, by.cast(of));
    // A shift by all bits leaves none.
    let down = a.binary(BinaryOp::Shr, (-by + bits).cast(of));
    V::new((up | down).bits(T::DTYPE))
}

/// The bits, rotated to the left.
pub fn rotate_left<'k, T: Int>(_: Tracer<'k>, a: V<'k, T>, by: V<'k, u32>) -> V<'k, T> {
    rotated(a, by.val())
}

/// The bits, rotated to the right.
pub fn rotate_right<'k, T: Int>(_: Tracer<'k>, a: V<'k, T>, by: V<'k, u32>) -> V<'k, T> {
    rotated(a, -by.val())
}

/// To the power of an integer. Wraps.
pub fn pow<'k, T: Int>(k: Tracer<'k>, a: V<'k, T>, n: V<'k, u32>) -> V<'k, T> {
    match n.constant() {
        Some(n) => V::new(product(lit(k, T::of_bits(1)).val(), a.val(), n as u32)),
        None => integers::pow::traced(k, a, n),
    }
}

macro_rules! of_integers {
    ($($(#[$doc:meta])* $name:ident($($argument:ident),*) -> $result:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name<'k, T: Int>(k: Tracer<'k>, $($argument: V<'k, T>),*) -> V<'k, $result> {
            integers::$name::traced(k, $($argument),*)
        }
    )*};
}

of_integers! {
    /// The quotient, rounded up.
    div_ceil(a, by) -> T;
    /// The quotient whose rest is not negative.
    div_euclid(a, by) -> T;
    /// The least multiple of a number that is not less.
    next_multiple_of(a, of) -> T;
    /// Whether one bit is set.
    is_power_of_two(a) -> bool;
    /// The least power of two that is not less.
    next_power_of_two(a) -> T;
    /// The place of the highest bit that is set.
    ilog2(a) -> u32;
}

/// The absolute value of an integer, which its unsigned type always has.
pub fn unsigned_abs<'k, T: Int>(k: Tracer<'k>, a: V<'k, T>) -> V<'k, T::Unsigned> {
    abs_diff(k, a, lit(k, T::default()))
}

/// Whether a number is greater than zero.
pub fn is_positive<'k, T: Int>(k: Tracer<'k>, a: V<'k, T>) -> V<'k, bool> {
    gt(a, lit(k, T::default()))
}

/// Whether a number is less than zero.
pub fn is_negative<'k, T: Int>(k: Tracer<'k>, a: V<'k, T>) -> V<'k, bool> {
    lt(a, lit(k, T::default()))
}

/// The number of ones before the highest bit that is not set.
pub fn leading_ones<'k, T: Int>(k: Tracer<'k>, a: V<'k, T>) -> V<'k, u32> {
    leading_zeros(k, not(a))
}

/// The number of ones behind the lowest bit that is not set.
pub fn trailing_ones<'k, T: Int>(k: Tracer<'k>, a: V<'k, T>) -> V<'k, u32> {
    trailing_zeros(k, not(a))
}

/// The logarithm to a base.
pub fn log<'k, T: Float>(_: Tracer<'k>, a: V<'k, T>, base: V<'k, T>) -> V<'k, T> {
    let [a, base] = [a, base].map(|it| wide(it).unary(UnaryOp::Log));
    narrow(a / base)
}

/// The distance of two integers.
pub fn abs_diff<'k, T: Int>(_: Tracer<'k>, a: V<'k, T>, b: V<'k, T>) -> V<'k, T::Unsigned> {
    let [a, b] = [a, b].map(V::val);
    let distance = a.lt(b).select(b - a, a - b);
    V::new(distance.bits(T::DTYPE.unsigned()))
}

/// Returns the least and the greatest integer of a type.
fn ends<'k, T: Int>(k: Tracer<'k>) -> [Val<'k>; 2] {
    let sign = 1 << (width(T::DTYPE) - 1);
    let all = u64::MAX >> (64 - width(T::DTYPE));
    let ends = match T::DTYPE.is_signed() {
        true => [sign, sign ^ all],
        false => [0, all],
    };
    ends.map(|bits| k.builder.bits(T::DTYPE, bits))
}

/// The sum, or the end of the range.
pub fn saturating_add<'k, T: Int>(k: Tracer<'k>, a: V<'k, T>, b: V<'k, T>) -> V<'k, T> {
    let ([a, b], [least, greatest]) = ([a, b].map(V::val), ends::<T>(k));
    let sum = a + b;
    V::new(match T::DTYPE.is_signed() {
        // The sum has another sign than both.
        true => ((a ^ sum) & (b ^ sum))
            .lt(0)
            .select(a.lt(0).select(least, greatest), sum),
        false => sum.lt(a).select(greatest, sum),
    })
}

/// The difference, or the end of the range.
pub fn saturating_sub<'k, T: Int>(k: Tracer<'k>, a: V<'k, T>, b: V<'k, T>) -> V<'k, T> {
    let ([a, b], [least, greatest]) = ([a, b].map(V::val), ends::<T>(k));
    let rest = a - b;
    V::new(match T::DTYPE.is_signed() {
        // Both signs differ, and the difference has not that of the first.
        true => ((a ^ b) & (a ^ rest))
            .lt(0)
            .select(a.lt(0).select(least, greatest), rest),
        false => a.lt(b).select(least, rest),
    })
}

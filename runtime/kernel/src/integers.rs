//! Functions of integers that are composed of others: each is a helper function of kernels, so the CPU and all devices
//! compute the same operations. They wrap, and a division by zero is zero.

use crate::kernel;
use crate::number::Int;

/// To the power of another one.
#[kernel]
pub(crate) fn pow<T: Int>(x: T, n: u32) -> T {
    let (mut left, mut base, mut product) = (n, x, 1 as T);
    while left > 0 {
        if left & 1 == 1 {
            product *= base;
        }
        base *= base;
        left >>= 1;
    }
    product
}

/// The quotient, rounded up.
#[kernel]
pub(crate) fn div_ceil<T: Int>(a: T, by: T) -> T {
    let (quotient, rest) = (a / by, a % by);
    let is_above = rest != 0 as T && (rest > 0 as T) == (by > 0 as T);
    if is_above {
        quotient + 1 as T
    } else {
        quotient
    }
}

/// The quotient whose rest is not negative.
#[kernel]
pub(crate) fn div_euclid<T: Int>(a: T, by: T) -> T {
    let quotient = a / by;
    let away = if by > 0 as T { 0 as T - 1 as T } else { 1 as T };
    if a % by < 0 as T {
        quotient + away
    } else {
        quotient
    }
}

/// The least multiple of a number that is not less.
#[kernel]
pub(crate) fn next_multiple_of<T: Int>(a: T, of: T) -> T {
    let rest = a.rem_euclid(of);
    let up = if of < 0 as T {
        0 as T - rest
    } else {
        of - rest
    };
    if rest == 0 as T { a } else { a + up }
}

/// Whether one bit is set.
#[kernel]
pub(crate) fn is_power_of_two<T: Int>(a: T) -> bool {
    a != 0 as T && a & (a - 1 as T) == 0 as T
}

/// The least power of two that is not less.
#[kernel]
pub(crate) fn next_power_of_two<T: Int>(a: T) -> T {
    // All bits of less than this are below the power.
    let below = if a == 0 as T { 0 as T } else { a - 1 as T };
    (1 as T) << (below.count_zeros() + below.count_ones() - below.leading_zeros())
}

/// The place of the highest bit that is set.
#[kernel]
pub(crate) fn ilog2<T: Int>(a: T) -> u32 {
    a.count_zeros() + a.count_ones() - 1 - a.leading_zeros()
}

//! The exact operations on Rust types, with the meaning that [`op`](crate::op) gives them: for the reference, and for
//! executors whose loops are compiled for each type. All of them are inlined always, so that such a loop is compiled
//! with the instructions of its caller.

/// A type that values are computed in.
pub trait Number: Copy + PartialOrd + 'static {
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// Less than or equal to all values: the maximum of no elements.
    const LEAST: Self;
    /// Greater than or equal to all values: the minimum of no elements.
    const GREATEST: Self;
    /// Adds.
    fn plus(self, other: Self) -> Self;
    /// Subtracts.
    fn minus(self, other: Self) -> Self;
    /// Multiplies.
    fn times(self, other: Self) -> Self;
    /// Divides.
    fn over(self, other: Self) -> Self;
    /// Returns the remainder of a division.
    fn remainder(self, other: Self) -> Self;
    /// Negates.
    fn negated(self) -> Self;
    /// Returns the absolute value.
    fn absolute(self) -> Self;
    /// Returns `true` for NaN.
    fn is_nan(self) -> bool;

    /// Returns `self * b + c`; of floats rounded once.
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        self.times(b).plus(c)
    }

    /// Returns the smaller value, or NaN if one is NaN.
    #[inline(always)]
    fn least(self, other: Self) -> Self {
        if other < self || other.is_nan() {
            other
        } else {
            self
        }
    }

    /// Returns the greater value, or NaN if one is NaN.
    #[inline(always)]
    fn greatest(self, other: Self) -> Self {
        if other > self || other.is_nan() {
            other
        } else {
            self
        }
    }
}

/// A type with bitwise operations.
pub trait Bits: Number {
    /// Returns the bits that both have.
    fn and(self, other: Self) -> Self;
    /// Returns the bits that either has.
    fn or(self, other: Self) -> Self;
    /// Returns the bits that one of both has.
    fn xor(self, other: Self) -> Self;
    /// Shifts towards the high bits; 0 if no bit is left.
    fn shifted_up(self, by: Self) -> Self;
    /// Shifts towards the low bits; 0 or -1, the sign, if no bit is left.
    fn shifted_down(self, by: Self) -> Self;
    /// Inverts all bits.
    fn inverted(self) -> Self;
}

macro_rules! integers {
    ($($t:ident),*) => {$(
        impl Number for $t {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LEAST: Self = $t::MIN;
            const GREATEST: Self = $t::MAX;
            #[inline(always)]
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn minus(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline(always)]
            fn times(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline(always)]
            fn over(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            #[inline(always)]
            fn remainder(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            #[inline(always)]
            fn negated(self) -> Self { self.wrapping_neg() }
            #[inline(always)]
            #[allow(unused_comparisons, reason = "one macro for signed and unsigned")]
            fn absolute(self) -> Self { if self < 0 { self.wrapping_neg() } else { self } }
            #[inline(always)]
            fn is_nan(self) -> bool { false }
        }
        impl Bits for $t {
            #[inline(always)]
            fn and(self, other: Self) -> Self { self & other }
            #[inline(always)]
            fn or(self, other: Self) -> Self { self | other }
            #[inline(always)]
            fn xor(self, other: Self) -> Self { self ^ other }
            // A negative shift is large as an unsigned number.
            #[inline(always)]
            fn shifted_up(self, by: Self) -> Self {
                if (by as u64) < u64::from(Self::BITS) { self << by } else { 0 }
            }
            #[inline(always)]
            #[allow(unused_comparisons, reason = "one macro for signed and unsigned")]
            fn shifted_down(self, by: Self) -> Self {
                let rest = if self < 0 { !0 } else { 0 };
                if (by as u64) < u64::from(Self::BITS) { self >> by } else { rest }
            }
            #[inline(always)]
            fn inverted(self) -> Self { !self }
        }
    )*};
}

integers! { i8, u8, i16, u16, i32, u32, i64, u64 }

macro_rules! floats {
    ($($t:ident),*) => {$(
        impl Number for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LEAST: Self = $t::NEG_INFINITY;
            const GREATEST: Self = $t::INFINITY;
            #[inline(always)]
            fn plus(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn minus(self, other: Self) -> Self { self - other }
            #[inline(always)]
            fn times(self, other: Self) -> Self { self * other }
            #[inline(always)]
            fn over(self, other: Self) -> Self { self / other }
            #[inline(always)]
            fn remainder(self, other: Self) -> Self { self % other }
            #[inline(always)]
            fn negated(self) -> Self { -self }
            #[inline(always)]
            fn absolute(self) -> Self { self.abs() }
            #[inline(always)]
            fn is_nan(self) -> bool { self != self }
            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self { self.mul_add(b, c) }
        }
    )*};
}

floats! { f32, f64 }

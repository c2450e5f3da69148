//! The numbers of kernels: the Rust types that a kernel computes with.
//!
//! Integer arithmetic wraps and never panics, in every profile: a quotient or remainder by zero is zero, and a shift by
//! all bits leaves none. So a kernel has one meaning on all devices ([`millstream_ir::op`]).

use half::{bf16, f16};
use millstream_ir::DType;
use millstream_ir::scalar::arith::{self, Bits as _, Number as _};

use crate::parameter::Parameter;

mod sealed {
    pub trait Sealed {}
}

use sealed::Sealed;

pub use crate::value::Scalar;

/// A value that can be cast.
pub trait Cast: Scalar {
    /// Casts, as Rust's `as`.
    fn cast<T: Number>(self) -> T;
}

/// The operations of a [`Number`]. Not in the prelude, so that they do not hide those of Rust's own types.
pub trait Arithmetic: Cast {
    /// Adds.
    fn add(self, other: Self) -> Self;
    /// Subtracts.
    fn sub(self, other: Self) -> Self;
    /// Multiplies.
    fn mul(self, other: Self) -> Self;
    /// Divides.
    fn div(self, other: Self) -> Self;
    /// Returns the remainder of a division.
    fn rem(self, other: Self) -> Self;
    /// Negates.
    fn neg(self) -> Self;
    /// Returns the absolute value.
    fn abs(self) -> Self;
    /// Returns the smaller value, NaN if one is NaN.
    fn min(self, other: Self) -> Self;
    /// Returns the greater value, NaN if one is NaN.
    fn max(self, other: Self) -> Self;
}

/// A number that kernels compute with: the integers, `f32`, `f64`, `f16` and `bf16`.
///
/// A kernel that is generic over it has one instance for each type:
///
/// ```ignore
/// #[kernel]
/// fn scale<T: Number>(factor: T, x: &mut [T]) {
///     let i = thread();
///     x[i] *= factor;
/// }
/// ```
pub trait Number:
    Arithmetic + Parameter + PartialOrd + Default + std::fmt::Debug + Send + Sync + Sealed + 'static
{
}

/// An integer of a kernel.
pub trait Int: Number + Bits {
    /// Returns the value as an index, `usize::MAX` if no array has it.
    fn index(self) -> usize;
    /// Shifts left by the number; 0 if the shift is negative or at least the number of bits.
    fn shl<U: Int>(self, by: U) -> Self;
    /// Shifts right by the number; only sign bits remain if the shift is negative or at least the number of bits.
    fn shr<U: Int>(self, by: U) -> Self;
    /// The unsigned integer with as many bits.
    type Unsigned: Int;
    /// Returns the distance.
    #[doc(hidden)]
    fn distance(self, other: Self) -> Self::Unsigned;
    /// Adds, up to the end of the range.
    #[doc(hidden)]
    fn up_to(self, more: Self) -> Self;
    /// Subtracts, down to the end of the range.
    #[doc(hidden)]
    fn down_to(self, less: Self) -> Self;
    /// Rotates the bits to the left.
    #[doc(hidden)]
    fn rotated(self, by: u32) -> Self;
}

/// A type with bitwise operations: integers and `bool`.
pub trait Bits: Copy + 'static {
    /// Bitwise and.
    fn and(self, other: Self) -> Self;
    /// Bitwise or.
    fn or(self, other: Self) -> Self;
    /// Bitwise exclusive or.
    fn xor(self, other: Self) -> Self;
    /// Bitwise not.
    fn not(self) -> Self;
}

/// A float of a kernel: `f32`, `f64`, and the halves, which compute as `f32` and round each result.
pub trait Float: Number {
    /// The unsigned integer with as many bits.
    type Word: Int;
    /// Applies a function of `f64` or `f32`.
    #[doc(hidden)]
    fn apply(self, narrow: impl FnOnce(f32) -> f32, wide: impl FnOnce(f64) -> f64) -> Self;
    /// Applies a function of two `f64` or `f32`.
    #[doc(hidden)]
    fn apply_with(
        self,
        other: Self,
        narrow: impl FnOnce(f32, f32) -> f32,
        wide: impl FnOnce(f64, f64) -> f64,
    ) -> Self;
    /// Returns `self` to the power of `exponent`.
    #[doc(hidden)]
    fn power(self, exponent: Self) -> Self;
    /// Returns `self * b + c`, rounded once.
    #[doc(hidden)]
    fn fused(self, b: Self, c: Self) -> Self;
}

impl Scalar for bool {
    const DTYPE: DType = DType::Bool;
    #[inline(always)]
    fn of_bits(bits: u64) -> Self {
        bits != 0
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self.into()
    }
}

impl Cast for bool {
    #[inline(always)]
    fn cast<T: Number>(self) -> T {
        u8::from(self).cast()
    }
}

impl Bits for bool {
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self & other
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        self | other
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }
    #[inline(always)]
    fn not(self) -> Self {
        !self
    }
}

/// Casts a value of a type with Rust's casts. The type is a constant, so that one arm is left of each instance.
macro_rules! cast {
    ($value:expr, $to:ident) => {
        match $to::DTYPE {
            DType::F64 => $to::of_bits(($value as f64).to_bits()),
            DType::F32 => $to::of_bits(u64::from(($value as f32).to_bits())),
            DType::I64 => $to::of_bits($value as i64 as u64),
            DType::U64 => $to::of_bits($value as u64),
            DType::I32 => $to::of_bits(u64::from($value as i32 as u32)),
            DType::U32 => $to::of_bits(u64::from($value as u32)),
            DType::I16 => $to::of_bits(u64::from($value as i16 as u16)),
            DType::U16 => $to::of_bits(u64::from($value as u16)),
            DType::I8 => $to::of_bits(u64::from($value as i8 as u8)),
            DType::U8 => $to::of_bits(u64::from($value as u8)),
            to => {
                use millstream_ir::scalar;
                let bits = scalar::cast(Self::DTYPE, to)($value.bits());
                $to::of_bits(bits)
            }
        }
    };
}

macro_rules! arithmetic {
    ($t:ident as $base:ident, $dtype:ident, $of_bits:expr, $bits:expr) => {
        impl Sealed for $t {}
        impl Number for $t {}
        impl Scalar for $t {
            const DTYPE: DType = DType::$dtype;
            #[inline(always)]
            fn of_bits(bits: u64) -> Self {
                let of_bits: fn(u64) -> Self = $of_bits;
                of_bits(bits)
            }
            #[inline(always)]
            fn bits(self) -> u64 {
                let bits: fn(Self) -> u64 = $bits;
                bits(self)
            }
        }
        impl Cast for $t {
            #[inline(always)]
            fn cast<T: Number>(self) -> T {
                cast!(self, T)
            }
        }
        impl Arithmetic for $t {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                (self as $base).plus(other as $base) as $t
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                (self as $base).minus(other as $base) as $t
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                (self as $base).times(other as $base) as $t
            }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                (self as $base).over(other as $base) as $t
            }
            #[inline(always)]
            fn rem(self, other: Self) -> Self {
                (self as $base).remainder(other as $base) as $t
            }
            #[inline(always)]
            fn neg(self) -> Self {
                (self as $base).negated() as $t
            }
            #[inline(always)]
            fn abs(self) -> Self {
                (self as $base).absolute() as $t
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                (self as $base).least(other as $base) as $t
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                (self as $base).greatest(other as $base) as $t
            }
        }
    };
}

macro_rules! integers {
    ($($t:ident $unsigned:ident as $base:ident $dtype:ident $word:ident),*) => {$(
        arithmetic!($t as $base, $dtype, |bits| bits as $t, |value| value as $unsigned as u64);

        impl Bits for $t {
            #[inline(always)]
            fn and(self, other: Self) -> Self { self & other }
            #[inline(always)]
            fn or(self, other: Self) -> Self { self | other }
            #[inline(always)]
            fn xor(self, other: Self) -> Self { self ^ other }
            #[inline(always)]
            fn not(self) -> Self { !self }
        }

        impl Int for $t {
            #[inline(always)]
            fn index(self) -> usize { usize::try_from(self).unwrap_or(usize::MAX) }
            #[inline(always)]
            fn shl<U: Int>(self, by: U) -> Self {
                (self as $base).shifted_up(shift::<U, $base>(by)) as $t
            }
            #[inline(always)]
            fn shr<U: Int>(self, by: U) -> Self {
                (self as $base).shifted_down(shift::<U, $base>(by)) as $t
            }
            type Unsigned = $word;
            #[inline(always)]
            fn distance(self, other: Self) -> $word { self.abs_diff(other) }
            #[inline(always)]
            fn up_to(self, more: Self) -> Self { self.saturating_add(more) }
            #[inline(always)]
            fn down_to(self, less: Self) -> Self { self.saturating_sub(less) }
            #[inline(always)]
            fn rotated(self, by: u32) -> Self { self.rotate_left(by) }
        }
    )*};
}

/// Returns a shift as a number of another type: as all its bits if that type cannot represent it.
#[inline(always)]
fn shift<U: Int, T: arith::Number + TryFrom<u64>>(by: U) -> T {
    let by = Ord::min(by.index(), 64) as u64;
    T::try_from(by).unwrap_or(T::GREATEST)
}

integers! {
    i64 u64 as i64 I64 u64, u64 u64 as u64 U64 u64, i32 u32 as i32 I32 u32, u32 u32 as u32 U32 u32,
    i16 u16 as i16 I16 u16, u16 u16 as u16 U16 u16, i8 u8 as i8 I8 u8, u8 u8 as u8 U8 u8,
    usize u64 as u64 U64 usize, isize u64 as i64 I64 usize
}

macro_rules! floats {
    ($($t:ident $dtype:ident $word:ident, $narrow:ident $wide:ident => $apply:expr),*) => {$(
        arithmetic!($t as $t, $dtype, |bits| $t::from_bits(bits as _), |value| u64::from(value.to_bits()));

        impl Float for $t {
            type Word = $word;
            #[inline(always)]
            fn apply(self, $narrow: impl FnOnce(f32) -> f32, $wide: impl FnOnce(f64) -> f64) -> Self {
                $apply(self)
            }
            #[inline(always)]
            fn apply_with(
                self,
                other: Self,
                $narrow: impl FnOnce(f32, f32) -> f32,
                $wide: impl FnOnce(f64, f64) -> f64,
            ) -> Self {
                $apply(self, other)
            }
            #[inline(always)]
            fn power(self, exponent: Self) -> Self { self.powf(exponent) }
            #[inline(always)]
            fn fused(self, b: Self, c: Self) -> Self { self.mul_add(b, c) }
        }
    )*};
}

floats! { f32 F32 u32, narrow _wide => narrow, f64 F64 u64, _narrow wide => wide }

macro_rules! halves {
    ($($t:ident $dtype:ident),*) => {$(
        impl Sealed for $t {}
        impl Number for $t {}
        impl Scalar for $t {
            const DTYPE: DType = DType::$dtype;
            #[inline(always)]
            fn of_bits(bits: u64) -> Self { $t::from_bits(bits as u16) }
            #[inline(always)]
            fn bits(self) -> u64 { self.to_bits().into() }
        }
        impl Cast for $t {
            #[inline(always)]
            fn cast<T: Number>(self) -> T { self.to_f32().cast() }
        }
        impl Arithmetic for $t {
            #[inline(always)]
            fn add(self, other: Self) -> Self { $t::from_f32(self.to_f32() + other.to_f32()) }
            #[inline(always)]
            fn sub(self, other: Self) -> Self { $t::from_f32(self.to_f32() - other.to_f32()) }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { $t::from_f32(self.to_f32() * other.to_f32()) }
            #[inline(always)]
            fn div(self, other: Self) -> Self { $t::from_f32(self.to_f32() / other.to_f32()) }
            #[inline(always)]
            fn rem(self, other: Self) -> Self { $t::from_f32(self.to_f32() % other.to_f32()) }
            #[inline(always)]
            fn neg(self) -> Self { $t::from_f32(-self.to_f32()) }
            #[inline(always)]
            fn abs(self) -> Self { $t::from_f32(self.to_f32().abs()) }
            #[inline(always)]
            fn min(self, other: Self) -> Self { $t::from_f32(self.to_f32().least(other.to_f32())) }
            #[inline(always)]
            fn max(self, other: Self) -> Self { $t::from_f32(self.to_f32().greatest(other.to_f32())) }
        }

        impl Float for $t {
            type Word = u16;
            #[inline(always)]
            fn apply(self, narrow: impl FnOnce(f32) -> f32, _wide: impl FnOnce(f64) -> f64) -> Self {
                $t::from_f32(narrow(self.to_f32()))
            }
            #[inline(always)]
            fn apply_with(
                self,
                other: Self,
                narrow: impl FnOnce(f32, f32) -> f32,
                _wide: impl FnOnce(f64, f64) -> f64,
            ) -> Self {
                $t::from_f32(narrow(self.to_f32(), other.to_f32()))
            }
            #[inline(always)]
            fn power(self, exponent: Self) -> Self { $t::from_f32(self.to_f32().powf(exponent.to_f32())) }
            #[inline(always)]
            fn fused(self, b: Self, c: Self) -> Self {
                $t::from_f32(self.to_f32().mul_add(b.to_f32(), c.to_f32()))
            }
        }
    )*};
}

halves! { f16 F16, bf16 Bf16 }

//! Casts between types. Floats to integers truncate and saturate, integers wrap, and a number as a boolean is whether
//! it is not zero.

use std::marker::PhantomData;

use half::bf16;
use millstream_ir::scalar::Number;

use crate::half::F16;
use crate::level::Arithmetic;
use crate::operation::Operation;
use crate::truth::Truth;

/// Casts a value to another type.
pub trait Cast<U>: Copy {
    /// Returns the value as the other type.
    fn cast(self) -> U;
}

macro_rules! plain {
    ($from:ident => $($to:ident),*) => {$(
        impl Cast<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to { self as $to }
        }
    )*};
}

macro_rules! numbers {
    ($($t:ident: $zero:literal),*) => {$(
        plain!($t => f64, i64, u64, f32, i32, u32, i16, u16, i8, u8);
        impl Cast<Truth> for $t {
            #[inline(always)]
            fn cast(self) -> Truth { Truth::of(self != $zero) }
        }
        impl Cast<$t> for Truth {
            #[inline(always)]
            fn cast(self) -> $t { u8::from(self.is_true()) as $t }
        }
        impl Cast<$t> for F16 {
            #[inline(always)]
            fn cast(self) -> $t { self.to_f32() as $t }
        }
        impl Cast<$t> for bf16 {
            #[inline(always)]
            fn cast(self) -> $t { self.to_f32() as $t }
        }
    )*};
}

numbers! { f64: 0.0, f32: 0.0, i64: 0, u64: 0, i32: 0, u32: 0, i16: 0, u16: 0, i8: 0, u8: 0 }

impl Cast<Truth> for Truth {
    #[inline(always)]
    fn cast(self) -> Truth {
        Truth::of(self.is_true())
    }
}

/// Casts to halves, through an `f32` that is `$cut` of the value: rounded to odd if it may be wider.
macro_rules! halves {
    ($($from:ty: $value:ident => $cut:expr;)*) => {$(
        impl Cast<F16> for $from {
            #[inline(always)]
            fn cast(self) -> F16 { let $value = self; F16::of_f32($cut) }
        }
        impl Cast<bf16> for $from {
            #[inline(always)]
            fn cast(self) -> bf16 { let $value = self; bf16::from_f32($cut) }
        }
    )*};
}

halves! {
    f64: x => Number::Float(x).to_odd();
    f32: x => x;
    i64: x => Number::Whole(x.into()).to_odd();
    u64: x => Number::Whole(x.into()).to_odd();
    i32: x => Number::Float(x.into()).to_odd();
    u32: x => Number::Float(x.into()).to_odd();
    i16: x => f32::from(x);
    u16: x => f32::from(x);
    i8: x => f32::from(x);
    u8: x => f32::from(x);
    Truth: x => f32::from(u8::from(x.is_true()));
    F16: x => x.to_f32();
    bf16: x => x.to_f32();
}

impl Cast<Truth> for F16 {
    #[inline(always)]
    fn cast(self) -> Truth {
        Truth::of(self.0 & 0x7fff != 0)
    }
}

impl Cast<Truth> for bf16 {
    #[inline(always)]
    fn cast(self) -> Truth {
        Truth::of(self.to_bits() & 0x7fff != 0)
    }
}

/// The cast to a type, as an operation.
pub struct To<U>(PhantomData<U>);

impl<T: Cast<U>, U> Operation<T> for To<U> {
    type Out = U;
    #[inline(always)]
    fn of<A: Arithmetic>(a: T, _: T) -> U {
        a.cast()
    }
}

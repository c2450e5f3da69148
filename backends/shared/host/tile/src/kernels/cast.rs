//! Casts between types. Floats to integers truncate and saturate, integers wrap, and a number as a boolean is whether
//! it is not zero.

use std::marker::PhantomData;

use half::bf16;
use millstream_ir::DType;
use millstream_ir::scalar::Number;

use super::map::{Operation, map1};
use super::match_type;
use crate::truth::Truth;
use millstream_loops::half::F16;
use millstream_loops::level::{Arithmetic, Kernel, Level};

/// Casts a value to another type.
pub(crate) trait Cast<U>: Copy {
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
pub(super) struct To<U>(PhantomData<U>);

impl<T: Cast<U>, U> Operation<T> for To<U> {
    type Out = U;
    #[inline(always)]
    fn of<A: Arithmetic>(a: T, _: T) -> U {
        a.cast()
    }
}

macro_rules! with_stored {
    ($dtype:expr, $t:ident => $body:expr) => {
        match_type!($dtype, $t => $body;
            DType::F64 => f64, DType::F32 => f32, DType::F16 => F16, DType::Bf16 => bf16,
            DType::I64 => i64, DType::U64 => u64, DType::I32 => i32, DType::U32 => u32,
            DType::I16 => i16, DType::U16 => u16, DType::I8 => i8, DType::U8 => u8,
            DType::Bool => Truth; else return None)
    };
}

/// Returns the loop of a cast, if there is one.
pub(crate) fn cast(from: DType, to: DType, level: Level) -> Option<Kernel> {
    Some(with_stored!(from, T => with_stored!(to, U => map1::<T, To<U>>(level))))
}

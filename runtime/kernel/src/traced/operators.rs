//! Operators: of numbers, and of structs whose `impl` of the operator's trait has the attribute.

use super::{Tracer, V, add, div, mul, neg, rem, sub};
use crate::number::Number;

macro_rules! operators {
    ($($trait:ident $function:ident $number:ident $text:literal;)*) => {$(
        #[doc = concat!("The operator `", $text, "`.")]
        pub trait $trait<'k, B> {
            /// The type of the result.
            type Output;
            /// Applies the operator.
            fn $function(self, k: Tracer<'k>, other: B) -> Self::Output;
        }

        impl<'k, T: Number> $trait<'k, V<'k, T>> for V<'k, T> {
            type Output = Self;

            fn $function(self, _: Tracer<'k>, other: Self) -> Self {
                match folds::<T>() {
                    true => V::folded(self, other, |a, b| {
                        T::of_bits(a).$number(T::of_bits(b)).bits()
                    }),
                    false => None,
                }
                .unwrap_or_else(|| $number(self, other))
            }
        }

        #[doc = concat!("`a ", $text, " b`.")]
        pub fn $function<'k, A: $trait<'k, B>, B>(k: Tracer<'k>, a: A, b: B) -> A::Output {
            a.$function(k, b)
        }
    )*};
}

operators! {
    Plus plus add "+";
    Minus minus sub "-";
    Times times mul "*";
    Over over div "/";
    Remainder remainder rem "%";
}

/// Returns whether operations on constants of a type are constants: of integers, whose results loops and branches rely on.
fn folds<T: Number>() -> bool {
    !T::DTYPE.is_float()
}

/// The operator `-` of one value.
pub trait Negated<'k> {
    /// The type of the result.
    type Output;
    /// Applies the operator.
    fn negated(self, k: Tracer<'k>) -> Self::Output;
}

impl<'k, T: Number> Negated<'k> for V<'k, T> {
    type Output = Self;

    fn negated(self, _: Tracer<'k>) -> Self {
        neg(self)
    }
}

/// `-a`.
pub fn negated<'k, A: Negated<'k>>(k: Tracer<'k>, a: A) -> A::Output {
    a.negated(k)
}

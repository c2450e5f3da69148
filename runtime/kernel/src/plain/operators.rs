//! Operators: of numbers, and of structs whose `impl` of the operator's trait has the attribute.

use crate::number::Number;

macro_rules! operators {
    ($($trait:ident $function:ident $number:ident $text:literal;)*) => {$(
        #[doc = concat!("The operator `", $text, "`.")]
        pub trait $trait<B> {
            /// The type of the result.
            type Output;
            /// Applies the operator.
            fn $function(self, other: B) -> Self::Output;
        }

        impl<T: Number> $trait<T> for T {
            type Output = T;

            #[inline(always)]
            fn $function(self, other: T) -> T {
                self.$number(other)
            }
        }

        #[doc = concat!("`a ", $text, " b`.")]
        #[inline(always)]
        pub fn $function<A: $trait<B>, B>(a: A, b: B) -> A::Output {
            a.$function(b)
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

/// The operator `-` of one value.
pub trait Negated {
    /// The type of the result.
    type Output;
    /// Applies the operator.
    fn negated(self) -> Self::Output;
}

impl<T: Number> Negated for T {
    type Output = T;

    #[inline(always)]
    fn negated(self) -> T {
        self.neg()
    }
}

/// `-a`.
#[inline(always)]
pub fn negated<A: Negated>(a: A) -> A::Output {
    a.negated()
}

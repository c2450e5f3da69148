//! The types of kernels: numbers, `bool`s, tuples and arrays, and structs with `#[kernel]`.

use millstream_ir::{CompareOp, DType};

use super::words::Words;
use super::{Scalar, Traced, Tracer, V, lit};

/// The Rust type of values of a kernel: a number, a `bool`, a tuple or an array of them, or a struct with `#[kernel]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no type of kernels",
    note = "kernels have numbers, `bool`s, tuples and arrays of them, and structs with `#[kernel]`"
)]
pub trait Kind: Sized + 'static {
    /// The value of the kernel under construction.
    type Of<'k>: Traced<'k>;
    /// The type of the words of an element in memory.
    const WORD: DType;
    /// The size of an element in memory.
    const BYTES: usize;

    /// Returns an element in memory as a variable: it is loaded when its value is used.
    fn element<'k>(k: Tracer<'k>, words: Words<'k>) -> Self::Of<'k>;

    /// Adds a parameter: a scalar for each number.
    fn parameter<'k>(k: Tracer<'k>, name: &str) -> Self::Of<'k>;

    /// Returns a constant.
    fn constant(self, k: Tracer<'_>) -> Self::Of<'_>;

    /// Calls `each` with the bits and the type of each number, in order.
    fn each_number(&self, each: &mut dyn FnMut(u64, DType));
}

/// The value of a Rust type in the kernel under construction.
pub type Of<'k, T> = <T as Kind>::Of<'k>;

/// A value of the kernel under construction that elements of arrays may have.
pub trait Inside<'k>: Traced<'k> {
    /// Its Rust type.
    type Kind: Kind<Of<'k> = Self>;
}

impl<'k, T: Scalar> Inside<'k> for V<'k, T> {
    type Kind = T;
}

/// Returns the value of a constant.
pub fn constant<C: Kind>(k: Tracer<'_>, value: C) -> C::Of<'_> {
    value.constant(k)
}

macro_rules! kinds {
    ($($t:ty),*) => {$(
        impl Kind for $t {
            type Of<'k> = V<'k, $t>;
            const WORD: DType = <$t as Scalar>::DTYPE;
            const BYTES: usize = Self::WORD.size();

            fn element<'k>(_: Tracer<'k>, words: Words<'k>) -> V<'k, $t> {
                V::element(words)
            }

            fn parameter<'k>(k: Tracer<'k>, name: &str) -> V<'k, $t> {
                // A launch passes a `bool` as a byte.
                V::new(match Self::WORD {
                    DType::Bool => k.builder.scalar(name, DType::U8).compare(CompareOp::Ne, 0),
                    dtype => k.builder.scalar(name, dtype),
                })
            }

            fn constant(self, k: Tracer<'_>) -> V<'_, $t> {
                lit(k, self)
            }

            fn each_number(&self, each: &mut dyn FnMut(u64, DType)) {
                each(self.bits(), Self::WORD);
            }
        }
    )*};
}

kinds!(
    bool, f64, f32, i64, u64, i32, u32, i16, u16, i8, u8, isize, usize
);
kinds!(half::f16, half::bf16);

macro_rules! tuples {
    ($(($($name:ident $index:tt),*))*) => {$(
        impl<'k, $($name: Traced<'k>),*> Traced<'k> for ($($name,)*) {
            fn unset(k: Tracer<'k>) -> Self {
                ($($name::unset(k),)*)
            }

            fn load(self) -> Self {
                ($(self.$index.load(),)*)
            }

            fn assign(self, value: Self) {
                $(self.$index.assign(value.$index);)*
            }
        }

        impl<'k, $($name: Inside<'k>),*> Inside<'k> for ($($name,)*) {
            type Kind = ($($name::Kind,)*);
        }

        impl<$($name: Kind),*> Kind for ($($name,)*) {
            type Of<'k> = ($(Of<'k, $name>,)*);
            const WORD: DType = DType::common(&[$($name::WORD),*]);
            const BYTES: usize = 0 $(+ $name::BYTES)*;

            #[allow(non_snake_case, reason = "one text for all lengths")]
            fn element<'k>(k: Tracer<'k>, words: Words<'k>) -> Self::Of<'k> {
                let mut bytes = 0;
                $(
                    let $name = $name::element(k, words.behind(bytes));
                    bytes += $name::BYTES;
                )*
                debug_assert!(bytes == Self::BYTES);
                ($($name,)*)
            }

            fn parameter<'k>(k: Tracer<'k>, name: &str) -> Self::Of<'k> {
                ($($name::parameter(k, &format!("{name}_{}", $index)),)*)
            }

            fn constant(self, k: Tracer<'_>) -> Self::Of<'_> {
                ($(self.$index.constant(k),)*)
            }

            fn each_number(&self, each: &mut dyn FnMut(u64, DType)) {
                $(self.$index.each_number(each);)*
            }
        }
    )*};
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}

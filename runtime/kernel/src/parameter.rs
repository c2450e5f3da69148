//! The parameters of a launch that are no buffers.

use half::{bf16, f16};
use millstream_client::arguments::Argument;
use millstream_protocol::NativeArgs;

use crate::value::Scalar as _;

/// A value that a launch passes: a number or a `bool`, which is one scalar; a tuple, an array or a struct with `#[kernel]`, which is
/// several.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no parameter of a kernel",
    note = "a launch passes numbers, `bool`s, tuples and arrays of them, structs with `#[kernel]`, and buffers"
)]
pub trait Parameter: Copy + 'static {
    /// The number of scalars.
    const SCALARS: usize;

    /// Writes the scalars, each to a word from this one on.
    fn put(self, words: &mut [u64], at: usize);

    /// Reads the scalars from this one on.
    fn of(arguments: &NativeArgs<'_>, at: usize) -> Self;
}

/// Checks that a launch can pass what the program has.
const fn check<T: Argument>() {}

macro_rules! scalars {
    ($($t:ty as $passed:ty: $of:expr),*) => {$(
        impl Parameter for $t {
            const SCALARS: usize = {
                check::<$t>();
                1
            };

            #[inline(always)]
            fn put(self, words: &mut [u64], at: usize) {
                words[at] = self.bits();
            }

            #[inline(always)]
            fn of(arguments: &NativeArgs<'_>, at: usize) -> Self {
                let of: fn($passed) -> $t = $of;
                of(arguments.scalar::<$passed>(at))
            }
        }
    )*};
}

scalars! {
    f64 as f64: |it| it, i64 as i64: |it| it, u64 as u64: |it| it, f32 as f32: |it| it, i32 as i32: |it| it,
    u32 as u32: |it| it, f16 as f16: |it| it, bf16 as bf16: |it| it, i16 as i16: |it| it, u16 as u16: |it| it,
    i8 as i8: |it| it, u8 as u8: |it| it, usize as u64: |it| it as usize, isize as i64: |it| it as isize,
    bool as u8: |it| it != 0
}

impl<T: Parameter, const N: usize> Parameter for [T; N] {
    const SCALARS: usize = N * T::SCALARS;

    #[inline(always)]
    fn put(self, words: &mut [u64], at: usize) {
        for (number, element) in self.into_iter().enumerate() {
            element.put(words, at + number * T::SCALARS);
        }
    }

    #[inline(always)]
    fn of(arguments: &NativeArgs<'_>, at: usize) -> Self {
        std::array::from_fn(|number| T::of(arguments, at + number * T::SCALARS))
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),*))*) => {$(
        impl<$($name: Parameter),*> Parameter for ($($name,)*) {
            const SCALARS: usize = 0 $(+ $name::SCALARS)*;

            #[inline(always)]
            #[allow(unused_assignments, reason = "behind the last part is nothing")]
            fn put(self, words: &mut [u64], mut at: usize) {
                $(
                    self.$index.put(words, at);
                    at += $name::SCALARS;
                )*
            }

            #[inline(always)]
            #[allow(non_snake_case, unused_assignments, reason = "one text for all lengths")]
            fn of(arguments: &NativeArgs<'_>, mut at: usize) -> Self {
                $(
                    let $name = $name::of(arguments, at);
                    at += $name::SCALARS;
                )*
                ($($name,)*)
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

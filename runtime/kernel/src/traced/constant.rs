//! Constants that a kernel names: numbers, and arrays of them.
//!
//! A constant array is an array of each thread that the first statements of the program fill, so it is filled once, wherever
//! the kernel uses it and however often. Nothing stores to it, so all uses share it.

use super::{Array, Tracer, V, lit};
use crate::number::Scalar;

/// The most elements of a constant array: each is a statement of the program, and of each thread. A larger one belongs in
/// a buffer.
const ELEMENTS_MAX: usize = 256;

/// What a constant of a kernel is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no constant of kernels",
    note = "constants of kernels are numbers, `bool`s and arrays of them"
)]
pub trait Constant {
    /// The value of the kernel under construction.
    type Of<'k>;
    /// Returns the value.
    fn traced(self, k: Tracer<'_>) -> Self::Of<'_>;
}

impl<T: Scalar> Constant for T {
    type Of<'k> = V<'k, T>;

    fn traced(self, k: Tracer<'_>) -> V<'_, T> {
        lit(k, self)
    }
}

impl<T: Scalar, const N: usize> Constant for [T; N] {
    type Of<'k> = Array<'k, T, N>;

    fn traced(self, k: Tracer<'_>) -> Array<'_, T, N> {
        if N > ELEMENTS_MAX {
            k.builder.refuse(format!(
                "has a constant array of {N} elements: at most {ELEMENTS_MAX} are a part of the program; pass a buffer"
            ));
        }
        let elements = self.map(Scalar::bits);
        let elements = &elements[..N.min(ELEMENTS_MAX)];
        let key = (T::DTYPE, elements.to_vec());
        let mut tables = k.tables.borrow_mut();
        let memory = tables.entry(key).or_insert_with(|| {
            let memory = Array::<T, N>::declared(k, "constant");
            k.builder.first(|| {
                for (at, bits) in (0..).zip(elements) {
                    memory.set(at, k.builder.bits(T::DTYPE, *bits));
                }
            });
            memory
        });
        Array::at(k, *memory)
    }
}

/// Returns the value of a constant.
pub fn constant<C: Constant>(k: Tracer<'_>, value: C) -> C::Of<'_> {
    value.traced(k)
}

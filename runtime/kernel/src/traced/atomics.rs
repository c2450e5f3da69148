//! Atomic operations on elements of buffers and of shared arrays.

use millstream_ir::BinaryOp;

use super::memory::{AtomicBuffer, Group, Place, index};
use super::{V, neg};
use crate::number::{Int, Number};
use crate::plain::check_size;

macro_rules! integers {
    ($($name:ident $op:ident $doc:literal;)*) => {$(
        #[doc = $doc]
        fn $name<I: Int>(self, at: V<'k, I>, value: V<'k, Self::Element>) -> V<'k, Self::Element>
        where
            Self::Element: Int,
        {
            const { check_size::<Self::Element>() };
            V::new(self.words().memory().fetch(BinaryOp::$op, index(at), value.val()))
        }
    )*};
}

/// Memory with atomic operations on its elements. Each returns what the element was before.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no atomics",
    note = "declare the buffer of the kernel as `&[Atomic<T>]`; a shared array has atomics, too"
)]
pub trait Atomics<'k>: Place<'k, Element: Number> {
    /// Adds to an element.
    fn fetch_add<I: Int>(self, at: V<'k, I>, value: V<'k, Self::Element>) -> V<'k, Self::Element> {
        const { check_size::<Self::Element>() };
        V::new(self.words().memory().add(index(at), value.val()))
    }

    /// Replaces an element.
    fn swap<I: Int>(self, at: V<'k, I>, value: V<'k, Self::Element>) -> V<'k, Self::Element> {
        const { check_size::<Self::Element>() };
        V::new(self.words().memory().swap(index(at), value.val()))
    }

    /// Replaces an element.
    fn store<I: Int>(self, at: V<'k, I>, value: V<'k, Self::Element>) {
        self.swap(at, value);
    }

    /// Returns an element.
    fn load<I: Int>(self, at: V<'k, I>) -> V<'k, Self::Element> {
        const { check_size::<Self::Element>() };
        V::new(self.words().memory().get_atomic(index(at)))
    }

    /// Subtracts from an element.
    fn fetch_sub<I: Int>(self, at: V<'k, I>, value: V<'k, Self::Element>) -> V<'k, Self::Element>
    where
        Self::Element: Int,
    {
        self.fetch_add(at, neg(value))
    }

    integers! {
        fetch_min Min "Replaces an element by the smaller one of it and a value.";
        fetch_max Max "Replaces an element by the greater one of it and a value.";
        fetch_and And "Keeps the bits of an element that a value has, too.";
        fetch_or Or "Adds the bits of a value to an element.";
        fetch_xor Xor "Flips the bits of an element that a value has.";
    }

    /// Replaces an element by `new` if it is `expected`.
    fn compare_exchange<I: Int>(
        self,
        at: V<'k, I>,
        expected: V<'k, Self::Element>,
        new: V<'k, Self::Element>,
    ) -> V<'k, Self::Element>
    where
        Self::Element: Int,
    {
        const { check_size::<Self::Element>() };
        let (expected, new) = (expected.val(), new.val());
        V::new(
            self.words()
                .memory()
                .compare_exchange(index(at), expected, new),
        )
    }
}

impl<'k, T: Number> Atomics<'k> for AtomicBuffer<'k, T> {}
impl<'k, T: Number> Atomics<'k> for Group<'k, T> {}

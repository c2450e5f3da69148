//! Buffers, shared arrays and arrays of a thread.

use std::marker::PhantomData;

use millstream_ir::DType;
use millstream_ir::ssa::{MemoryRef, Operand, Val};

use super::{Traced, Tracer, V, lit};
use crate::number::{Int, Number, Scalar};

/// Memory that has elements.
pub trait Place<'k>: Copy {
    /// The type of the elements.
    type Element: Scalar;
    /// Returns the memory.
    #[doc(hidden)]
    fn memory(self) -> MemoryRef<'k>;

    /// Returns the number of elements.
    fn length(self, k: Tracer<'k>) -> V<'k, usize> {
        V::new(k.builder.len(self.memory()))
    }
}

/// Memory whose elements a kernel loads and stores. A buffer of atomics is none: a launch that accesses an element both
/// ways would have a race.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no buffer or array whose elements a kernel loads and stores",
    note = "for a buffer of atomics declare the parameter of the helper function as `&[Atomic<T>]`"
)]
pub trait Memory<'k>: Place<'k> {}

/// A buffer.
pub struct Buffer<'k, T> {
    memory: MemoryRef<'k>,
    of: PhantomData<fn() -> T>,
}

/// A buffer whose elements are accessed by atomic operations.
pub struct AtomicBuffer<'k, T> {
    memory: MemoryRef<'k>,
    of: PhantomData<fn() -> T>,
}

/// An array that the threads of a cube share.
pub struct Group<'k, T> {
    memory: MemoryRef<'k>,
    of: PhantomData<fn() -> T>,
}

/// An array of a thread.
pub struct Array<'k, T, const N: usize> {
    k: Tracer<'k>,
    memory: MemoryRef<'k>,
    of: PhantomData<fn() -> T>,
}

macro_rules! memories {
    ($($name:ident),*) => {$(
        impl<T> Clone for $name<'_, T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<'_, T> {}

        impl<'k, T: Scalar> Place<'k> for $name<'k, T> {
            type Element = T;

            fn memory(self) -> MemoryRef<'k> {
                self.memory
            }
        }
    )*};
}

memories!(Buffer, AtomicBuffer, Group);

impl<'k, T: Scalar> Memory<'k> for Buffer<'k, T> {}
impl<'k, T: Scalar> Memory<'k> for Group<'k, T> {}
impl<'k, T: Scalar, const N: usize> Memory<'k> for Array<'k, T, N> {}

impl<T, const N: usize> Clone for Array<'_, T, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const N: usize> Copy for Array<'_, T, N> {}

impl<'k, T: Scalar, const N: usize> Place<'k> for Array<'k, T, N> {
    type Element = T;

    fn memory(self) -> MemoryRef<'k> {
        self.memory
    }

    fn length(self, k: Tracer<'k>) -> V<'k, usize> {
        lit(k, N)
    }
}

/// Returns an index as the program has it.
pub(super) fn index<T: Int>(index: V<'_, T>) -> Val<'_> {
    let index = index.val();
    match T::DTYPE {
        DType::I64 => index,
        DType::U64 => index.bits(DType::I64),
        _ => index.cast(DType::I64),
    }
}

/// Loads an element.
pub fn get<'k, M: Memory<'k>, I: Int>(from: M, at: V<'k, I>) -> V<'k, M::Element> {
    V::new(from.memory().get(index(at)))
}

/// Stores an element.
pub fn set<'k, M: Memory<'k>, I: Int>(to: M, at: V<'k, I>, value: V<'k, M::Element>) {
    to.memory().set(index(at), value.val());
}

impl<'k, T: Number> Buffer<'k, T> {
    pub(crate) fn new(memory: MemoryRef<'k>) -> Self {
        let of = PhantomData;
        Self { memory, of }
    }
}

impl<'k, T: Number> AtomicBuffer<'k, T> {
    pub(crate) fn new(memory: MemoryRef<'k>) -> Self {
        let of = PhantomData;
        Self { memory, of }
    }
}

/// Returns the number of elements.
pub fn len<'k>(k: Tracer<'k>, of: impl Place<'k>) -> V<'k, usize> {
    of.length(k)
}

/// An array of this name that the threads of a cube share. Its content is undefined at first.
pub fn shared<'k, T: Scalar>(k: Tracer<'k>, name: &str, len: usize) -> Group<'k, T> {
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    let memory = k.builder.shared(name, T::DTYPE, len);
    let of = PhantomData;
    Group { memory, of }
}

/// The most elements that are copied one by one, and not by a loop.
const UNROLLED_MAX: usize = 16;

/// Returns an array with these elements.
pub fn array<'k, T: Scalar, const N: usize>(
    k: Tracer<'k>,
    elements: [V<'k, T>; N],
) -> Array<'k, T, N> {
    let array = Array::unset(k);
    for (at, element) in elements.into_iter().enumerate() {
        array.memory.set(at as i64, element.val());
    }
    array
}

/// Returns an array of equal elements.
pub fn filled<'k, T: Scalar, const N: usize>(k: Tracer<'k>, element: V<'k, T>) -> Array<'k, T, N> {
    let (array, element) = (Array::unset(k), element.val());
    let of_array: Array<'k, T, N> = array;
    k.builder
        .range(0, N as i64, 1, |at| of_array.memory.set(at, element));
    of_array
}

impl<'k, T: Scalar, const N: usize> Array<'k, T, N> {
    /// Adds an array of a thread.
    pub(super) fn declared(k: Tracer<'k>, name: &str) -> MemoryRef<'k> {
        // An array of one element would be a variable, which has no index.
        let len = u32::try_from(N.max(2)).unwrap_or(u32::MAX);
        k.builder.local(name, T::DTYPE, len)
    }

    /// Returns the array in this memory.
    pub(super) fn at(k: Tracer<'k>, memory: MemoryRef<'k>) -> Self {
        let of = PhantomData;
        Self { k, memory, of }
    }
}

impl<'k, T: Scalar, const N: usize> Traced<'k> for Array<'k, T, N> {
    fn unset(k: Tracer<'k>) -> Self {
        Self::at(k, Self::declared(k, "array"))
    }

    fn load(self) -> Self {
        // The variable may change, and what was read of it does not.
        self.fresh(self.k)
    }

    fn assign(self, value: Self) {
        let copy = |at: Operand<'k>| self.memory.set(at, value.memory.get(at));
        if N <= UNROLLED_MAX {
            (0..N as i64).for_each(|at| copy(at.into()));
        } else {
            let all = self.k.builder;
            all.range(0, N as i64, 1, |at| copy(at.into()));
        }
    }
}

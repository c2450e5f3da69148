//! Buffers and shared arrays, and accesses to them.

use std::marker::PhantomData;

use millstream_ir::DType;
use millstream_ir::ssa::{MemoryRef, Operand, Val};

use super::{Tracer, V};
use crate::number::{Int, Number};
use crate::value::Words;
use crate::value::{Inside, Kind};

/// Memory that has elements.
pub trait Place<'k>: Copy {
    /// The type of the elements.
    type Element: Kind;
    /// Returns the memory, from its first element on.
    #[doc(hidden)]
    fn words(self) -> Words<'k>;

    /// Returns the number of elements.
    fn length(self, k: Tracer<'k>) -> V<'k, usize> {
        let words = k.builder.len(self.words().memory());
        V::new(match Self::Element::BYTES / Self::Element::WORD.size() {
            1 => words,
            each => words / each as i64,
        })
    }

    /// Returns the number of elements if accesses of the memory do not check the index, as this is an array in it.
    #[doc(hidden)]
    fn part_len(self) -> Option<usize> {
        None
    }
}

/// Memory whose elements a kernel loads and stores. A buffer of atomics is none: a launch that accesses an element both
/// ways would have a race.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no buffer or array whose elements a kernel loads and stores",
    note = "for a buffer of atomics declare the parameter of the helper function as `&[Atomic<T>]`"
)]
pub trait Memory<'k>: Place<'k> {}

/// Memory whose elements a kernel stores, too.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is read-only, and the helper function stores to its elements",
    note = "declare the parameter that is passed as `&mut [T]`, and that of the kernel with it"
)]
pub trait MemoryMut<'k>: Memory<'k> {}

/// A buffer, `&[T]`.
pub struct Buffer<'k, T> {
    memory: MemoryRef<'k>,
    of: PhantomData<fn() -> T>,
}

/// A buffer, `&mut [T]`.
pub struct BufferMut<'k, T> {
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

macro_rules! memories {
    ($($name:ident),*) => {$(
        impl<T> Clone for $name<'_, T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<'_, T> {}

        impl<'k, T: Kind> Place<'k> for $name<'k, T> {
            type Element = T;

            fn words(self) -> Words<'k> {
                Words::new(self.memory)
            }
        }
    )*};
}

memories!(Buffer, BufferMut, AtomicBuffer, Group);

impl<'k, T: Kind> Memory<'k> for Buffer<'k, T> {}
impl<'k, T: Kind> Memory<'k> for BufferMut<'k, T> {}
impl<'k, T: Kind> Memory<'k> for Group<'k, T> {}
impl<'k, T: Kind> MemoryMut<'k> for BufferMut<'k, T> {}
impl<'k, T: Kind> MemoryMut<'k> for Group<'k, T> {}

/// Returns an index as the program has it.
pub(super) fn index<T: Int>(index: V<'_, T>) -> Val<'_> {
    let index = index.val();
    match T::DTYPE {
        DType::I64 => index,
        DType::U64 => index.bits(DType::I64),
        _ => index.cast(DType::I64),
    }
}

// The types of an element and of its value follow from each other, so that rustc infers both.

/// Returns the index of an element. One that an array within other memory does not have is far beyond that memory.
fn within<'k, M: Memory<'k>, I: Int>(k: Tracer<'k>, of: M, at: V<'k, I>) -> Operand<'k> {
    let (len, far) = (of.part_len(), of.words().far(M::Element::BYTES));
    if let Some(bits) = at.constant() {
        let at: i64 = I::of_bits(bits).cast();
        let is_within = len.is_none_or(|len| (0..len as i64).contains(&at));
        return Operand::Int(if is_within { at } else { far }, DType::I64);
    }
    let value = at.val();
    let at = index(V::<I>::new(value));
    match len {
        Some(len) if k.is_checked && !k.is_below(value, len) => {
            let is_within = at.bits(DType::U64).lt(len as i64);
            is_within.select(at, far).into()
        }
        _ => at.into(),
    }
}

/// Returns an element as a variable: it is loaded when its value is used.
pub fn place<'k, M, I, R>(k: Tracer<'k>, of: M, at: V<'k, I>) -> R
where
    M: Memory<'k, Element: Kind<Of<'k> = R>>,
    I: Int,
    R: Inside<'k, Kind = M::Element>,
{
    let words = of.words().element(within(k, of, at), M::Element::BYTES);
    M::Element::element(k, words)
}

/// Loads an element.
pub fn get<'k, M, I, R>(k: Tracer<'k>, from: M, at: V<'k, I>) -> R
where
    M: Memory<'k, Element: Kind<Of<'k> = R>>,
    I: Int,
    R: Inside<'k, Kind = M::Element>,
{
    place(k, from, at).load()
}

/// Stores an element.
pub fn set<'k, M, I, R>(k: Tracer<'k>, to: M, at: V<'k, I>, value: R)
where
    M: Memory<'k, Element: Kind<Of<'k> = R>>,
    I: Int,
    R: Inside<'k, Kind = M::Element>,
{
    place(k, to, at).assign(value);
}

impl<'k, T: Kind> Buffer<'k, T> {
    pub(crate) fn new(memory: MemoryRef<'k>) -> Self {
        let of = PhantomData;
        Self { memory, of }
    }
}

impl<'k, T: Kind> BufferMut<'k, T> {
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
pub fn shared<'k, T: Kind>(k: Tracer<'k>, name: &str, len: usize) -> Group<'k, T> {
    let words = len.saturating_mul(T::BYTES / T::WORD.size());
    let words = u32::try_from(words).unwrap_or(u32::MAX);
    let memory = k.builder.shared(name, T::WORD, words);
    let of = PhantomData;
    Group { memory, of }
}

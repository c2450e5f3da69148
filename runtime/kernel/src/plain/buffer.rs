//! Buffers as the threads of a kernel see them on the CPU.
//!
//! | | the kernel | accesses |
//! | --- | --- | --- |
//! | [`In`] | has it as `&[T]` | plain loads |
//! | [`Along`] | likewise, and loads the element with the thread's own number | plain loads |
//! | [`Own`] | has it as `&mut [T]`, and each thread accesses only the element with its own number | plain |
//! | [`Shared`] | has it as `&mut [T]`, otherwise | relaxed atomics, since threads may access the same element |
//! | [`Atomics`] | has it as `&[Atomic<T>]` | atomic operations |
//!
//! The macro chooses a view by the text of the kernel. It cannot choose wrongly: the element with the thread's own number is
//! that of a [`Thread`], which only the loop over the threads makes.

use std::marker::PhantomData;
use std::ptr::NonNull;

use millstream_ir::DType;
use millstream_ir::nest::BufferMode;
use millstream_protocol::{Element, NativeArgs, NativeView, Stored};

use super::memory::{At, Get, Length, lengths, out_of_bounds};
use super::thread::Thread;
use crate::number::Number;

mod sealed {
    /// Views are those of this module: the loop over the threads relies on what they say of their bindings.
    pub trait Sealed {}
}

use sealed::Sealed;

impl Sealed for () {}
impl<A: Sealed, B: Sealed> Sealed for (A, B) {}
impl<T> Sealed for In<'_, T> {}
impl<T> Sealed for Along<'_, T> {}
impl<T, const WHOLE: bool> Sealed for Own<'_, T, WHOLE> {}
impl<T, const WHOLE: bool> Sealed for Shared<'_, T, WHOLE> {}
impl<T> Sealed for Atomics<'_, T> {}

/// A view of a binding, or nested pairs of views: of several bindings, in order. Sealed.
pub trait View<'a>: Copy + Sealed {
    /// The number of bindings.
    const BINDINGS: usize;

    /// Adds the types and modes of the bindings.
    fn add_bindings(to: &mut Vec<(DType, BufferMode)>);

    /// Returns the view of a binding; of several, from this one on.
    ///
    /// # Safety
    /// The bindings have these types and modes. The arguments are those of a launch whose bindings do not overlap if one
    /// of them is written. All views of these bindings, of all cubes, are of this type, and no two [`Thread`]s of the
    /// launch are equal.
    unsafe fn of(arguments: &NativeArgs<'a>, index: usize) -> Self;

    /// Returns the least length of the buffers that threads access at their own number.
    #[inline(always)]
    fn shortest(&self) -> usize {
        usize::MAX
    }

    /// Tells the compiler that buffers that threads access at their own number have an element of this number.
    ///
    /// # Safety
    /// It is less than [`View::shortest`].
    #[inline(always)]
    unsafe fn assume(&self, _number: usize) {}
}

impl<'a> View<'a> for () {
    const BINDINGS: usize = 0;

    fn add_bindings(_: &mut Vec<(DType, BufferMode)>) {}

    #[inline(always)]
    unsafe fn of(_: &NativeArgs<'a>, _: usize) -> Self {}
}

impl<'a, A: View<'a>, B: View<'a>> View<'a> for (A, B) {
    const BINDINGS: usize = A::BINDINGS + B::BINDINGS;

    fn add_bindings(to: &mut Vec<(DType, BufferMode)>) {
        A::add_bindings(to);
        B::add_bindings(to);
    }

    #[inline(always)]
    unsafe fn of(arguments: &NativeArgs<'a>, index: usize) -> Self {
        // SAFETY: the caller's promises.
        unsafe {
            (
                A::of(arguments, index),
                B::of(arguments, index + A::BINDINGS),
            )
        }
    }

    #[inline(always)]
    fn shortest(&self) -> usize {
        Ord::min(self.0.shortest(), self.1.shortest())
    }

    #[inline(always)]
    unsafe fn assume(&self, number: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            self.0.assume(number);
            self.1.assume(number);
        }
    }
}

lengths! {
    In<'_, T>, [T], it => it.0.len();
    Along<'_, T>, [T], it => it.0.len();
    Own<'_, T, WHOLE>, [T, const WHOLE: bool], it => it.len;
    Shared<'_, T, WHOLE>, [T, const WHOLE: bool], it => it.len;
    Atomics<'_, T>, [T], it => it.0.len;
}

/// A buffer that the kernel reads.
#[derive(Clone, Copy)]
pub struct In<'a, T>(&'a [T]);

/// A buffer that the kernel reads, also at the thread's own number.
#[derive(Clone, Copy)]
pub struct Along<'a, T>(&'a [T]);

/// A buffer of which each thread accesses only the element with its own number. `WHOLE`: the launch defines all of it.
pub struct Own<'a, T, const WHOLE: bool = false> {
    first: *mut T,
    len: usize,
    lives: PhantomData<&'a mut [T]>,
}

/// A buffer whose elements several threads may access. `WHOLE`: the launch defines all of it.
pub struct Shared<'a, T, const WHOLE: bool = false> {
    pub(super) first: *mut T,
    pub(super) len: usize,
    lives: PhantomData<&'a [T]>,
}

/// A buffer whose elements are accessed by atomic operations.
pub struct Atomics<'a, T>(Shared<'a, T>);

macro_rules! copied {
    ($($name:ident $(const $whole:ident)?),*) => {$(
        impl<T $(, const $whole: bool)?> Clone for $name<'_, T $(, $whole)?> {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T $(, const $whole: bool)?> Copy for $name<'_, T $(, $whole)?> {}
    )*};
}

copied!(Own const WHOLE, Shared const WHOLE, Atomics);

/// Returns the mode of a buffer that a kernel stores to.
const fn mode(whole: bool) -> BufferMode {
    match whole {
        true => BufferMode::Write,
        false => BufferMode::Update,
    }
}

/// Returns the elements of a binding: the first, aligned, and their number.
#[inline(always)]
fn all<T: Stored>(arguments: &NativeArgs<'_>, index: usize) -> (*mut T, usize) {
    const {
        assert!(
            size_of::<T>() > 0 && size_of::<T>().is_multiple_of(T::WORD.size()),
            "an element consists of words"
        );
    };
    let NativeView { pointer, bytes } = arguments.raw_bytes(index);
    let len = bytes as usize / size_of::<T>();
    let first = match len {
        0 => NonNull::dangling().as_ptr(),
        _ => pointer.cast::<T>(),
    };
    // A launch checks that a binding is aligned for its words.
    if align_of::<T>() > T::WORD.size() {
        assert!(
            first.is_aligned(),
            "a binding of structs begins at a multiple of the size of their greatest number"
        );
    }
    (first, len)
}

/// Returns the elements of a binding that a launch only reads.
///
/// # Safety
/// As for [`View::of`], and the mode of the view is [`BufferMode::Read`].
#[inline(always)]
unsafe fn elements<'a, T: Stored>(arguments: &NativeArgs<'a>, index: usize) -> &'a [T] {
    let (first, len) = all::<T>(arguments, index);
    // SAFETY: the memory is initialized, aligned, and lives for 'a (`NativeArgs::new`). Nothing writes it meanwhile:
    // neither another task, nor another binding of the launch.
    unsafe { std::slice::from_raw_parts(first, len) }
}

impl<'a, T: Stored> View<'a> for In<'a, T> {
    const BINDINGS: usize = 1;

    fn add_bindings(to: &mut Vec<(DType, BufferMode)>) {
        to.push((T::WORD, BufferMode::Read));
    }

    #[inline(always)]
    unsafe fn of(arguments: &NativeArgs<'a>, index: usize) -> Self {
        // SAFETY: the caller's promises.
        Self(unsafe { elements(arguments, index) })
    }
}

impl<'a, T: Stored> View<'a> for Along<'a, T> {
    const BINDINGS: usize = 1;

    fn add_bindings(to: &mut Vec<(DType, BufferMode)>) {
        to.push((T::WORD, BufferMode::Read));
    }

    #[inline(always)]
    unsafe fn of(arguments: &NativeArgs<'a>, index: usize) -> Self {
        // SAFETY: the caller's promises.
        Self(unsafe { elements(arguments, index) })
    }

    #[inline(always)]
    fn shortest(&self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    unsafe fn assume(&self, number: usize) {
        // SAFETY: the caller's promise.
        unsafe { std::hint::assert_unchecked(number < self.0.len()) };
    }
}

impl<'a, T: Stored, const WHOLE: bool> View<'a> for Own<'a, T, WHOLE> {
    const BINDINGS: usize = 1;

    fn add_bindings(to: &mut Vec<(DType, BufferMode)>) {
        to.push((T::WORD, mode(WHOLE)));
    }

    #[inline(always)]
    unsafe fn of(arguments: &NativeArgs<'a>, index: usize) -> Self {
        let (first, len) = all::<T>(arguments, index);
        let lives = PhantomData;
        Self { first, len, lives }
    }

    #[inline(always)]
    fn shortest(&self) -> usize {
        self.len
    }

    #[inline(always)]
    unsafe fn assume(&self, number: usize) {
        // SAFETY: the caller's promise.
        unsafe { std::hint::assert_unchecked(number < self.len) };
    }
}

impl<'a, T: Stored, const WHOLE: bool> View<'a> for Shared<'a, T, WHOLE> {
    const BINDINGS: usize = 1;

    fn add_bindings(to: &mut Vec<(DType, BufferMode)>) {
        to.push((T::WORD, mode(WHOLE)));
    }

    #[inline(always)]
    unsafe fn of(arguments: &NativeArgs<'a>, index: usize) -> Self {
        let (first, len) = all::<T>(arguments, index);
        let lives = PhantomData;
        Self { first, len, lives }
    }
}

impl<'a, T: Element + Number> View<'a> for Atomics<'a, T> {
    const BINDINGS: usize = 1;

    fn add_bindings(to: &mut Vec<(DType, BufferMode)>) {
        to.push((<T as Element>::DTYPE, BufferMode::Update));
    }

    #[inline(always)]
    unsafe fn of(arguments: &NativeArgs<'a>, index: usize) -> Self {
        // SAFETY: the caller's promises.
        Self(unsafe { Shared::of(arguments, index) })
    }
}

impl<T: Copy> Get for In<'_, T> {
    type Element = T;

    #[inline(always)]
    fn get(&self, index: usize, at: &'static At) -> T {
        match self.0.get(index) {
            Some(element) => *element,
            None => out_of_bounds(at, index, self.0.len()),
        }
    }
}

impl<T: Copy> Get for Along<'_, T> {
    type Element = T;

    #[inline(always)]
    fn get(&self, index: usize, at: &'static At) -> T {
        In(self.0).get(index, at)
    }
}

impl<T: Copy, const WHOLE: bool> Own<'_, T, WHOLE> {
    /// Loads the element of a thread.
    ///
    /// # Panics
    /// There is no such element.
    #[inline(always)]
    pub fn get(&self, thread: Thread<'_>, at: &'static At) -> T {
        // SAFETY: the element exists, and only this thread of the launch accesses it (`View::of`).
        unsafe { self.place(thread, at).read() }
    }

    /// Stores the element of a thread.
    ///
    /// # Panics
    /// There is no such element.
    #[inline(always)]
    pub fn set(&self, thread: Thread<'_>, value: T, at: &'static At) {
        // SAFETY: as in `get`.
        unsafe { self.place(thread, at).write(value) };
    }

    /// Changes a part of the element of a thread.
    ///
    /// # Panics
    /// There is no such element.
    #[inline(always)]
    pub fn change(&self, thread: Thread<'_>, change: impl FnOnce(&mut T), at: &'static At) {
        let mut value = self.get(thread, at);
        change(&mut value);
        self.set(thread, value, at);
    }

    #[inline(always)]
    fn place(&self, thread: Thread<'_>, at: &'static At) -> *mut T {
        let index = thread.number();
        if index >= self.len {
            out_of_bounds(at, index, self.len);
        }
        // SAFETY: the element exists.
        unsafe { self.first.add(index) }
    }
}

impl<T: Number> Atomics<'_, T> {
    /// Returns the address of an element. All accesses to the element are atomic (`View::of`).
    ///
    /// # Panics
    /// There is no such element.
    #[inline(always)]
    pub(super) fn place(&self, index: usize, at: &'static At) -> *mut T {
        self.0.place(index, at)
    }
}

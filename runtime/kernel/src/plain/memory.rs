//! Memory as kernels access it on the CPU: by index, with the place of the access for its message.

use crate::number::Int;

/// The place of an access in the text, for its message.
#[derive(Debug)]
pub struct At {
    /// The name of the buffer or array.
    pub name: &'static str,
    /// The source file.
    pub file: &'static str,
    /// The line in it.
    pub line: u32,
}

/// Panics: the failure of a kernel that accesses an element that does not exist.
#[cold]
#[inline(never)]
pub(super) fn out_of_bounds(at: &At, index: usize, len: usize) -> ! {
    let At { name, file, line } = at;
    panic!(
        "`{name}[{index}]` is out of bounds, `{name}` has {len} elements: {file}:{line}; compare the index with the length first"
    )
}

/// Memory whose length a kernel may ask for.
pub trait Length {
    /// Returns the number of elements.
    fn length(&self) -> usize;
}

/// Memory that a kernel loads from.
pub trait Get: Length {
    /// The type of the elements.
    type Element;
    /// Loads an element.
    ///
    /// # Panics
    /// There is no such element.
    fn get(&self, index: usize, at: &'static At) -> Self::Element;
}

/// Memory that a kernel stores to.
pub trait Set: Get {
    /// Stores an element.
    ///
    /// # Panics
    /// There is no such element.
    fn set(&mut self, index: usize, value: Self::Element, at: &'static At);

    /// Changes a part of an element, and no other part.
    ///
    /// # Panics
    /// There is no such element.
    fn change(&mut self, index: usize, change: impl FnOnce(&mut Self::Element), at: &'static At);
}

/// Memory of a thread.
pub trait Slots: Set {
    /// Returns an element.
    ///
    /// # Panics
    /// There is no such element.
    fn slot(&mut self, index: usize, at: &'static At) -> &mut Self::Element;
}

/// Returns the number of elements.
#[inline(always)]
pub fn len(of: &(impl Length + ?Sized)) -> usize {
    of.length()
}

/// Loads an element.
#[inline(always)]
pub fn get<G: Get + ?Sized, I: Int>(from: &G, index: I, at: &'static At) -> G::Element {
    from.get(index.index(), at)
}

/// Stores an element.
#[inline(always)]
pub fn set<S: Set + ?Sized, I: Int>(to: &mut S, index: I, value: S::Element, at: &'static At) {
    to.set(index.index(), value, at);
}

/// Changes a part of an element.
#[inline(always)]
pub fn change<S: Set + ?Sized, I: Int>(
    to: &mut S,
    index: I,
    change: impl FnOnce(&mut S::Element),
    at: &'static At,
) {
    to.change(index.index(), change, at);
}

/// Returns an element of an array.
#[inline(always)]
pub fn slot<'a, S: Slots + ?Sized, I: Int>(
    of: &'a mut S,
    index: I,
    at: &'static At,
) -> &'a mut S::Element {
    of.slot(index.index(), at)
}

/// Implements [`Length`].
macro_rules! lengths {
    ($($of:ty, [$($generics:tt)*], $this:ident => $length:expr;)*) => {$(
        impl<$($generics)*> Length for $of {
            #[inline(always)]
            fn length(&self) -> usize {
                let $this = self;
                $length
            }
        }
    )*};
}

pub(super) use lengths;

lengths! {
    [T], [T], it => it.len();
    [T; N], [T, const N: usize], _it => N;
    &L, [L: Length + ?Sized], it => (**it).length();
    &mut L, [L: Length + ?Sized], it => (**it).length();
}

// Helper functions have their buffers by reference.

impl<G: Get + ?Sized> Get for &G {
    type Element = G::Element;

    #[inline(always)]
    fn get(&self, index: usize, at: &'static At) -> G::Element {
        (**self).get(index, at)
    }
}

impl<G: Get + ?Sized> Get for &mut G {
    type Element = G::Element;

    #[inline(always)]
    fn get(&self, index: usize, at: &'static At) -> G::Element {
        (**self).get(index, at)
    }
}

impl<S: Set + ?Sized> Set for &mut S {
    #[inline(always)]
    fn set(&mut self, index: usize, value: S::Element, at: &'static At) {
        (**self).set(index, value, at);
    }

    #[inline(always)]
    fn change(&mut self, index: usize, change: impl FnOnce(&mut S::Element), at: &'static At) {
        (**self).change(index, change, at);
    }
}

/// A slice of Rust that calls a helper function.
impl<T: Copy> Get for [T] {
    type Element = T;

    #[inline(always)]
    fn get(&self, index: usize, at: &'static At) -> T {
        match self.get(index) {
            Some(element) => *element,
            None => out_of_bounds(at, index, self.len()),
        }
    }
}

impl<T: Copy> Set for [T] {
    #[inline(always)]
    fn set(&mut self, index: usize, value: T, at: &'static At) {
        *self.slot(index, at) = value;
    }

    #[inline(always)]
    fn change(&mut self, index: usize, change: impl FnOnce(&mut T), at: &'static At) {
        change(self.slot(index, at));
    }
}

impl<T: Copy> Slots for [T] {
    #[inline(always)]
    fn slot(&mut self, index: usize, at: &'static At) -> &mut T {
        let len = self.len();
        match self.get_mut(index) {
            Some(element) => element,
            None => out_of_bounds(at, index, len),
        }
    }
}

/// An array of a thread.
impl<T: Copy, const N: usize> Get for [T; N] {
    type Element = T;

    #[inline(always)]
    fn get(&self, index: usize, at: &'static At) -> T {
        Get::get(self.as_slice(), index, at)
    }
}

impl<T: Copy, const N: usize> Set for [T; N] {
    #[inline(always)]
    fn set(&mut self, index: usize, value: T, at: &'static At) {
        Set::set(self.as_mut_slice(), index, value, at);
    }

    #[inline(always)]
    fn change(&mut self, index: usize, change: impl FnOnce(&mut T), at: &'static At) {
        Set::change(self.as_mut_slice(), index, change, at);
    }
}

impl<T: Copy, const N: usize> Slots for [T; N] {
    #[inline(always)]
    fn slot(&mut self, index: usize, at: &'static At) -> &mut T {
        self.as_mut_slice().slot(index, at)
    }
}

//! Arrays of a thread, and constant arrays.
//!
//! A constant array is a table of the program, wherever the kernel uses it and however often. Nothing stores to it, so all uses
//! share it.

use std::marker::PhantomData;

use millstream_ir::DType;
use millstream_ir::ssa::{MemoryRef, Operand, TABLE_BYTES_MAX};

use super::memory::{Memory, MemoryMut, Place};
use super::{Traced, Tracer, V, lit};
use crate::value::{Inside, Kind};
use crate::value::{Words, split};

/// The fewest words of a thread's array.
const LEN_MIN: usize = 2;
/// The most elements that are copied one by one, and not by a loop.
const UNROLLED_MAX: usize = 16;

/// An array of a thread, or one that is an element of memory.
pub struct Array<'k, T, const N: usize> {
    k: Tracer<'k>,
    words: Words<'k>,
    of: PhantomData<fn() -> T>,
}

impl<T, const N: usize> Clone for Array<'_, T, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const N: usize> Copy for Array<'_, T, N> {}

impl<'k, T: Kind, const N: usize> Place<'k> for Array<'k, T, N> {
    type Element = T;

    fn words(self) -> Words<'k> {
        self.words
    }

    fn length(self, k: Tracer<'k>) -> V<'k, usize> {
        lit(k, N)
    }

    fn part_len(self) -> Option<usize> {
        (self.words.is_part() || N < LEN_MIN).then_some(N)
    }
}

impl<'k, T: Kind, const N: usize> Memory<'k> for Array<'k, T, N> {}
impl<'k, T: Kind, const N: usize> MemoryMut<'k> for Array<'k, T, N> {}

impl<'k, T: Kind, const N: usize> Array<'k, T, N> {
    fn new(k: Tracer<'k>, words: Words<'k>) -> Self {
        let of = PhantomData;
        Self { k, words, of }
    }

    /// Adds an array of a thread.
    fn declared(k: Tracer<'k>, name: &str) -> MemoryRef<'k> {
        // An array of one element would be a variable, which has no index.
        let words = N.saturating_mul(T::BYTES / T::WORD.size()).max(LEN_MIN);
        let len = u32::try_from(words).unwrap_or(u32::MAX);
        k.builder.local(name, T::WORD, len)
    }

    /// Returns an element as a variable.
    fn place(self, at: Operand<'k>) -> T::Of<'k> {
        T::element(self.k, self.words.element(at, T::BYTES))
    }
}

/// Returns an array with these elements.
pub fn array<'k, R: Inside<'k>, const N: usize>(
    k: Tracer<'k>,
    elements: [R; N],
) -> Array<'k, R::Kind, N> {
    let array: Array<'k, R::Kind, N> = Array::unset(k);
    for (at, element) in (0..).zip(elements) {
        array.place(Operand::Int(at, DType::I64)).assign(element);
    }
    array
}

/// Returns an array of equal elements.
pub fn filled<'k, R: Inside<'k>, const N: usize>(
    k: Tracer<'k>,
    element: R,
) -> Array<'k, R::Kind, N> {
    let array: Array<'k, R::Kind, N> = Array::unset(k);
    // In the loop a variable would be loaded again for each element.
    let element = element.load();
    let all = 0..N as i64;
    k.builder.range(all.start, all.end, 1, |at| {
        array.place(at.into()).assign(element);
    });
    array
}

impl<'k, T: Kind, const N: usize> Traced<'k> for Array<'k, T, N> {
    fn unset(k: Tracer<'k>) -> Self {
        Self::new(k, Words::new(Self::declared(k, "array")))
    }

    fn load(self) -> Self {
        // The variable may change, and what was read of it does not.
        self.fresh(self.k)
    }

    fn assign(self, value: Self) {
        let copy = |at: Operand<'k>| self.place(at).assign(value.place(at));
        if N <= UNROLLED_MAX {
            (0..N as i64).for_each(|at| copy(Operand::Int(at, DType::I64)));
        } else {
            let all = self.k.builder;
            all.range(0, N as i64, 1, |at| copy(at.into()));
        }
    }
}

impl<'k, T: Kind, const N: usize> Inside<'k> for Array<'k, T, N> {
    type Kind = [T; N];
}

impl<T: Kind, const N: usize> Kind for [T; N] {
    type Of<'k> = Array<'k, T, N>;
    const WORD: DType = T::WORD;
    const BYTES: usize = N * T::BYTES;

    fn element<'k>(k: Tracer<'k>, words: Words<'k>) -> Array<'k, T, N> {
        Array::new(k, words)
    }

    fn parameter<'k>(k: Tracer<'k>, name: &str) -> Array<'k, T, N> {
        let array: Array<'k, T, N> = Array::unset(k);
        for at in 0..N {
            let element = T::parameter(k, &format!("{name}_{at}"));
            array
                .place(Operand::Int(at as i64, DType::I64))
                .assign(element);
        }
        array
    }

    fn constant(self, k: Tracer<'_>) -> Array<'_, T, N> {
        let mut words = Vec::new();
        self.each_number(&mut |bits, dtype| split(bits, dtype, T::WORD, &mut words));
        let bytes = (words.len() * T::WORD.size()) as u64;
        if bytes > TABLE_BYTES_MAX {
            k.builder.refuse(format!(
                "has a constant array of {bytes} bytes: at most {TABLE_BYTES_MAX} are a part of the program; pass a buffer"
            ));
            words.clear();
        }
        // There is no table without elements.
        if words.is_empty() {
            words.push(0);
        }
        let mut tables = k.tables.borrow_mut();
        let memory = tables
            .entry((T::WORD, words))
            .or_insert_with_key(|(dtype, words)| {
                k.builder.table("constant", *dtype, words.clone())
            });
        Array::new(k, Words::new(*memory))
    }

    fn each_number(&self, each: &mut dyn FnMut(u64, DType)) {
        self.iter().for_each(|element| element.each_number(each));
    }
}

//! Values of the function under construction, and the Rust types that they stand for: `traced` computes with them.

mod kind;
mod words;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::marker::PhantomData;

use millstream_ir::DType;
use millstream_ir::ssa::{Builder, MemoryRef, Val, ValueId, Var};

pub use kind::{Inside, Kind, Of, constant};
pub use words::Words;
pub(crate) use words::split;

/// A value of a kernel: a number or a `bool`.
pub trait Scalar: Copy + 'static + for<'k> Kind<Of<'k> = V<'k, Self>> {
    /// The type on the device. `usize` is a `u64`, and `isize` an `i64`.
    const DTYPE: DType;
    /// Returns the value with these bits in the low end.
    fn of_bits(bits: u64) -> Self;
    /// Returns the bits, in the low end.
    fn bits(self) -> u64;
}

/// The constant arrays, by the type and the bits of their words.
type Tables<'k> = HashMap<(DType, Vec<u64>), MemoryRef<'k>>;

/// The function under construction, and the loops that are open.
#[derive(Clone, Copy)]
pub struct Tracer<'k> {
    pub(crate) builder: &'k Builder,
    /// The open loops, innermost last.
    pub(crate) loops: &'k RefCell<Vec<Loop<'k>>>,
    /// The label of the loop that is added with this.
    pub(crate) label: Option<&'static str>,
    /// The number of helper functions that call each other here.
    pub(crate) depth: usize,
    /// Whether helper functions call each other without end.
    pub(crate) is_endless: &'k Cell<bool>,
    /// The constant arrays.
    pub(crate) tables: &'k RefCell<Tables<'k>>,
    /// Indices of loops, and what each is below. None is negative.
    pub(crate) below: &'k RefCell<HashMap<ValueId, u64>>,
    /// Whether accesses are checked.
    pub(crate) is_checked: bool,
    /// The axes of a launch: it has one cube along the others.
    pub(crate) axes: &'k Cell<usize>,
}

/// A loop that is open.
#[derive(Default)]
pub(crate) struct Loop<'k> {
    pub(crate) label: Option<&'static str>,
    /// Jumps of loops around it that begin in it.
    pub(crate) behind: Vec<Leaves<'k>>,
}

/// A jump behind a loop, if its flag is set.
pub(crate) struct Leaves<'k> {
    pub(crate) flag: Var<'k>,
    pub(crate) jump: Jump,
    /// Whether it is the last of the jumps that the flag is for.
    pub(crate) is_last: bool,
}

/// A jump of a loop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Jump {
    /// Out of the loop.
    Break,
    /// To the next iteration.
    Continue,
}

impl Tracer<'_> {
    /// The statements from here on come from this line.
    pub fn line(self, line: u32) {
        self.builder.line(line);
    }

    /// Notes an index of a loop that is not negative, and below this number.
    pub(crate) fn note_index(self, index: Val<'_>, below: u64) {
        self.below.borrow_mut().insert(index.id(), below);
    }

    /// Returns whether a value is an index of a loop that ends at this number or before it.
    pub(crate) fn is_below(self, value: Val<'_>, len: usize) -> bool {
        let below = self.below.borrow();
        below.get(&value.id()).is_some_and(|end| *end <= len as u64)
    }

    /// The loop that is added with this has a label.
    pub fn label(self, label: &'static str) -> Self {
        let label = Some(label);
        Self { label, ..self }
    }
}

/// A value of the kernel whose Rust type is `T`, or a variable.
pub struct V<'k, T> {
    place: Place<'k>,
    of: PhantomData<fn() -> T>,
}

#[derive(Clone, Copy)]
enum Place<'k> {
    /// A constant that no statement defines yet.
    Constant(&'k Builder, DType, u64),
    Value(Val<'k>),
    Variable(Var<'k>),
    /// An element of memory, or a part of one.
    Element(Words<'k>, DType),
}

impl<T> Clone for V<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for V<'_, T> {}

impl<'k, T> V<'k, T> {
    pub(crate) fn new(value: Val<'k>) -> Self {
        Self::at(Place::Value(value))
    }

    /// Returns an element of memory as a variable.
    pub(crate) fn element(words: Words<'k>) -> Self
    where
        T: Scalar,
    {
        Self::at(Place::Element(words, T::DTYPE))
    }

    fn at(place: Place<'k>) -> Self {
        let of = PhantomData;
        Self { place, of }
    }

    /// Returns the value, of a variable the one that it has now.
    pub(crate) fn val(self) -> Val<'k> {
        match self.place {
            Place::Constant(builder, dtype, bits) => builder.bits(dtype, bits),
            Place::Value(value) => value,
            Place::Variable(variable) => variable.get(),
            Place::Element(words, dtype) => words.load(dtype),
        }
    }

    /// Returns `a` if the condition holds, otherwise `b`.
    pub(crate) fn chosen(condition: V<'k, bool>, a: Self, b: Self) -> Self
    where
        T: Scalar,
    {
        match condition.constant() {
            Some(0) => b.load(),
            Some(_) => a.load(),
            None => Self::new(condition.val().select(a.val(), b.val())),
        }
    }

    /// Applies a function of bits to two constants. So the branches of an instance that its constants decide are decided
    /// here, and the program does not have those that no thread takes.
    pub(crate) fn folded<A, B>(
        a: V<'k, A>,
        b: V<'k, B>,
        of: impl Fn(u64, u64) -> u64,
    ) -> Option<Self>
    where
        T: Scalar,
    {
        match (a.place, b.place) {
            (Place::Constant(builder, _, a), Place::Constant(_, _, b)) => {
                Some(Self::at(Place::Constant(builder, T::DTYPE, of(a, b))))
            }
            _ => None,
        }
    }

    /// Returns the bits of a constant.
    pub(crate) fn constant(self) -> Option<u64> {
        match self.place {
            Place::Constant(_, _, bits) => Some(bits),
            _ => None,
        }
    }
}

/// Returns a constant.
pub fn lit<'k, T: Scalar>(k: Tracer<'k>, value: T) -> V<'k, T> {
    V::at(Place::Constant(k.builder, T::DTYPE, value.bits()))
}

/// What a kernel's variables hold: a value, a tuple, or an array.
pub trait Traced<'k>: Copy {
    /// Returns a variable of this type, which is not set yet.
    fn unset(k: Tracer<'k>) -> Self;
    /// Returns what a variable holds now.
    fn load(self) -> Self;
    /// Sets a variable to what was loaded, or is no variable.
    fn assign(self, value: Self);

    /// Returns `a` if a condition holds, otherwise `b`.
    fn choose(k: Tracer<'k>, condition: V<'k, bool>, a: Self, b: Self) -> Self {
        match condition.constant() {
            Some(0) => b,
            Some(_) => a,
            None => {
                let result = Self::unset(k);
                let (then, otherwise) = (|| result.assign(a), || result.assign(b));
                k.builder.either(condition.val(), then, otherwise);
                result.load()
            }
        }
    }

    /// Returns a new variable that holds this.
    fn fresh(self, k: Tracer<'k>) -> Self {
        let variable = Self::unset(k);
        variable.assign(self);
        variable
    }
}

/// Returns a value of statements that no thread reaches, such as those behind a `break`.
pub fn never<'k, R: Traced<'k>>(k: Tracer<'k>) -> R {
    R::unset(k)
}

impl<'k, T: Scalar> Traced<'k> for V<'k, T> {
    fn unset(k: Tracer<'k>) -> Self {
        Self::at(Place::Variable(k.builder.unset("v", T::DTYPE)))
    }

    fn load(self) -> Self {
        match self.place {
            Place::Variable(_) | Place::Element(..) => Self::new(self.val()),
            _ => self,
        }
    }

    fn choose(_: Tracer<'k>, condition: V<'k, bool>, a: Self, b: Self) -> Self {
        Self::chosen(condition, a, b)
    }

    fn assign(self, value: Self) {
        match self.place {
            Place::Variable(variable) => variable.set(value.val()),
            Place::Element(words, dtype) => words.store(dtype, value.val()),
            _ => {}
        }
    }
}

impl<'k> Traced<'k> for () {
    fn unset(_: Tracer<'k>) -> Self {}
    fn load(self) -> Self {}
    fn assign(self, (): Self) {}
}

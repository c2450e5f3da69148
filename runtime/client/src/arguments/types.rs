//! The argument types of a typed kernel: a tuple of [`Read`], [`Write`], [`Update`] and scalars.
//!
//! What a kernel declares is known at run time only. A [`TypedKernel`](crate::TypedKernel) compares it with such a
//! tuple once. From then on the compiler checks launches: it infers the width of a literal, and rejects a handle of
//! other elements.

use std::fmt;
use std::marker::PhantomData;

use millstream_ir::DType;
use millstream_protocol::{Access, Element, Signature};

use crate::arguments::{Argument, Arguments, Bound, bind, nine_to_sixteen, up_to_eight};
use crate::handle::Handle;

/// The type of a binding that a [`TypedKernel`](crate::TypedKernel) reads.
pub struct Read<T: Element>(PhantomData<fn() -> T>);

/// The type of a binding of which a [`TypedKernel`](crate::TypedKernel) writes every byte.
pub struct Write<T: Element>(PhantomData<fn() -> T>);

/// The type of a binding that a [`TypedKernel`](crate::TypedKernel) reads and writes.
pub struct Update<T: Element>(PhantomData<fn() -> T>);

/// One declared argument. It is displayed as the Rust type of the argument: `Read<f32>`, `f32`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgumentKind {
    /// A binding.
    Binding(Access, DType),
    /// A scalar.
    Scalar(DType),
}

impl fmt::Display for ArgumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Binding(Access::Read, dtype) => write!(f, "Read<{dtype}>"),
            Self::Binding(Access::Write, dtype) => write!(f, "Write<{dtype}>"),
            Self::Binding(Access::ReadWrite, dtype) => write!(f, "Update<{dtype}>"),
            Self::Scalar(dtype) => write!(f, "{dtype}"),
        }
    }
}

/// Returns the kinds of the arguments that a signature declares.
pub(crate) fn kinds_of(signature: &Signature) -> Vec<ArgumentKind> {
    let bindings = signature.bindings().iter();
    let bindings = bindings.map(|spec| ArgumentKind::Binding(spec.access, spec.dtype));
    let scalars = signature.scalars().iter();
    bindings
        .chain(scalars.map(|spec| ArgumentKind::Scalar(spec.dtype)))
        .collect()
}

/// Returns the kinds of a tuple of argument types.
pub(crate) fn kinds_of_types<A: ArgumentTypes>() -> Vec<ArgumentKind> {
    let mut kinds = Vec::new();
    A::add_kinds(&mut kinds);
    kinds
}

/// Returns the kinds as the tuple of their Rust types.
pub(crate) fn displayed(kinds: &[ArgumentKind]) -> String {
    let kinds: Vec<String> = kinds.iter().map(ArgumentKind::to_string).collect();
    match kinds.as_slice() {
        [alone] => alone.clone(),
        several => format!("({})", several.join(", ")),
    }
}

/// The type of one argument of a [`TypedKernel`](crate::TypedKernel): [`Read`], [`Write`] or [`Update`] of an
/// [`Element`] for a binding; the type of the number for a scalar, where `usize` is a `u64`, `isize` an `i64` and
/// `bool` a `u8`; an array for several arguments of one type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the type of a kernel's argument",
    label = "neither a binding nor a scalar",
    note = "write `Read<T>`, `Write<T>` or `Update<T>` for a binding, with `T` the type of its elements, and the type of the number for a scalar"
)]
pub trait ArgumentType {
    /// The value that a launch takes: a handle or a number.
    type Given<'a>;
    /// The argument that the value is converted to.
    type Argument<'a>: Argument;
    /// Adds the kinds that a signature declares for this type: one, or one for each element of an array.
    fn add_kinds(kinds: &mut Vec<ArgumentKind>);

    /// Converts the value to an argument.
    fn argument(given: Self::Given<'_>) -> Self::Argument<'_>;
}

macro_rules! binding_types {
    ($($name:ident: $access:ident),*) => {$(
        impl<T: Element> ArgumentType for $name<T> {
            type Given<'a> = &'a Handle<T>;
            type Argument<'a> = Bound<'a, T>;

            fn add_kinds(kinds: &mut Vec<ArgumentKind>) {
                kinds.push(ArgumentKind::Binding(Access::$access, T::DTYPE));
            }

            #[inline(always)]
            fn argument(given: Self::Given<'_>) -> Self::Argument<'_> {
                bind(given, Access::$access)
            }
        }
    )*};
}

binding_types! { Read: Read, Write: Write, Update: ReadWrite }

macro_rules! scalar_types {
    ($($rust:ty => $element:ty),*) => {$(
        impl ArgumentType for $rust {
            type Given<'a> = $rust;
            type Argument<'a> = $rust;

            fn add_kinds(kinds: &mut Vec<ArgumentKind>) {
                kinds.push(ArgumentKind::Scalar(<$element as Element>::DTYPE));
            }

            #[inline(always)]
            fn argument(given: Self::Given<'_>) -> Self::Argument<'_> {
                given
            }
        }
    )*};
}

scalar_types! {
    f64 => f64, i64 => i64, u64 => u64, f32 => f32, i32 => i32, u32 => u32, half::f16 => half::f16, half::bf16 => half::bf16,
    i16 => i16, u16 => u16, i8 => i8, u8 => u8, usize => u64, isize => i64, bool => u8
}

/// Several arguments of one type, in order.
impl<A: ArgumentType, const N: usize> ArgumentType for [A; N] {
    type Given<'a> = [A::Given<'a>; N];
    type Argument<'a> = [A::Argument<'a>; N];

    fn add_kinds(kinds: &mut Vec<ArgumentKind>) {
        (0..N).for_each(|_| A::add_kinds(kinds));
    }

    #[inline(always)]
    fn argument(given: Self::Given<'_>) -> Self::Argument<'_> {
        given.map(A::argument)
    }
}

/// The types of all arguments of a [`TypedKernel`](crate::TypedKernel): a tuple of at most 16, or a single type.
/// Bindings come first, then scalars, both in declared order.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of the types of a kernel's arguments",
    label = "expected a tuple of types",
    note = "write a tuple of at most 16, such as `(Read<f32>, Write<f32>, u32)`; a single type needs no tuple",
    note = "each is `Read<T>`, `Write<T>` or `Update<T>`, with `T` the type of the elements, or the type of a number"
)]
pub trait ArgumentTypes {
    /// The values that a launch takes: a handle or a number for each type.
    type Given<'a>;
    /// The arguments that the values are converted to.
    type Arguments<'a>: Arguments;

    /// Adds the kinds that a signature declares for these types.
    fn add_kinds(kinds: &mut Vec<ArgumentKind>);

    /// Converts the values to arguments.
    fn arguments(given: Self::Given<'_>) -> Self::Arguments<'_>;
}

impl<A: ArgumentType> ArgumentTypes for A {
    type Given<'a> = A::Given<'a>;
    type Arguments<'a> = (A::Argument<'a>,);

    fn add_kinds(kinds: &mut Vec<ArgumentKind>) {
        A::add_kinds(kinds);
    }

    #[inline(always)]
    fn arguments(given: Self::Given<'_>) -> Self::Arguments<'_> {
        (A::argument(given),)
    }
}

macro_rules! tuple_types {
    ($(($($name:ident $index:tt),*))*) => {$(
        impl<$($name: ArgumentType),*> ArgumentTypes for ($($name,)*) {
            type Given<'a> = ($($name::Given<'a>,)*);
            type Arguments<'a> = ($($name::Argument<'a>,)*);

            fn add_kinds(_kinds: &mut Vec<ArgumentKind>) {
                $($name::add_kinds(_kinds);)*
            }

            #[inline(always)]
            #[allow(clippy::unused_unit, reason = "the empty tuple is an instance of this macro")]
            fn arguments(_given: Self::Given<'_>) -> Self::Arguments<'_> {
                ($($name::argument(_given.$index),)*)
            }
        }
    )*};
}

up_to_eight!(tuple_types);
nine_to_sixteen!(tuple_types);

//! The arguments of a launch: a tuple of bindings and scalars, or a list built at run time.
//!
//! Arguments are checked against the signature and packed in one pass, on the caller's thread. Moving the packed
//! arguments into the mailbox slot afterwards cannot fail.

use millstream_protocol::{Access, Element, Error, Metadata, Stored, TensorMap};

use crate::arguments::{
    ArgumentCount, ArgumentWriter, ScalarParameter, nine_to_sixteen, up_to_eight,
};
use crate::handle::Handle;

/// One binding of a launch: a handle with an access.
pub struct Bound<'a, T: Stored> {
    handle: &'a Handle<T>,
    access: Access,
}

impl<T: Stored> Clone for Bound<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Stored> Copy for Bound<'_, T> {}

impl<T: Stored> Bound<'_, T> {
    /// Returns the handle.
    pub fn handle(&self) -> &Handle<T> {
        self.handle
    }

    /// Returns the access.
    pub fn access(&self) -> Access {
        self.access
    }
}

/// Binds a handle for reading.
#[inline]
pub fn read<T: Stored>(handle: &Handle<T>) -> Bound<'_, T> {
    bind(handle, Access::Read)
}

/// Binds a handle for writing. The launch must define every byte of it.
#[inline]
pub fn write<T: Stored>(handle: &Handle<T>) -> Bound<'_, T> {
    bind(handle, Access::Write)
}

/// Binds a handle for reading and writing.
#[inline]
pub fn update<T: Stored>(handle: &Handle<T>) -> Bound<'_, T> {
    bind(handle, Access::ReadWrite)
}

/// Binds a handle with a given access.
#[inline]
pub fn bind<T: Stored>(handle: &Handle<T>, access: Access) -> Bound<'_, T> {
    Bound { handle, access }
}

pub(super) mod sealed {
    /// The traits of arguments are sealed, since what is checked and what is written must be the same.
    pub trait Sealed {}
}

use sealed::Sealed;

/// One argument: a bound handle, a scalar, a [`ScalarParameter`], or an array of arguments. Sealed.
///
/// Scalars are the [element](Element) types, and also `usize` as a `u64`, `isize` as an `i64` and `bool` as a `u8` of 0
/// or 1, so that a kernel sees the same width on every machine. A struct is not a scalar: pass its fields, or bind a
/// buffer of one (see [`Element`]).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an argument of a kernel",
    label = "neither a bound handle nor a scalar",
    note = "bind a handle with `read(&x)`, `write(&x)` or `update(&x)`, and pass scalars as numbers: f64, i64, u64, usize, f32, i32, u32, f16, bf16, i16, u16, i8, u8 or bool",
    note = "pass the fields of a `Pod` struct as separate scalars, or bind a buffer of one: `stream.create(bytemuck::cast_slice::<_, f32>(&[it]))`"
)]
pub trait Argument: Sealed {
    /// Returns how many arguments of each kind this is.
    fn count(&self) -> ArgumentCount;

    /// Checks the argument against the next entry of the signature, and packs it. A handle lives for `'h`, which ends
    /// after the launch is sent.
    ///
    /// # Errors
    /// The mismatch.
    fn write<'h>(&self, writer: &mut ArgumentWriter<'_, 'h>) -> Result<(), Box<Error>>
    where
        Self: 'h;
}

impl<T: Stored> Sealed for Bound<'_, T> {}

impl<T: Stored> Argument for Bound<'_, T> {
    #[inline(always)]
    fn count(&self) -> ArgumentCount {
        ArgumentCount::BINDING
    }

    #[inline(always)]
    fn write<'h>(&self, writer: &mut ArgumentWriter<'_, 'h>) -> Result<(), Box<Error>>
    where
        Self: 'h,
    {
        writer.binding(self.handle, self.access)
    }
}

impl<T: Stored> Sealed for &Handle<T> {}

impl<T: Element> Sealed for &ScalarParameter<T> {}

/// A scalar whose value each replay of a recording sets.
impl<T: Element> Argument for &ScalarParameter<T> {
    #[inline(always)]
    fn count(&self) -> ArgumentCount {
        ArgumentCount::SCALAR
    }

    fn write<'h>(&self, writer: &mut ArgumentWriter<'_, 'h>) -> Result<(), Box<Error>>
    where
        Self: 'h,
    {
        writer.scalar_parameter(self)
    }
}

/// Several arguments of one kind, in order.
impl<A: Argument, const N: usize> Argument for [A; N] {
    #[inline(always)]
    fn count(&self) -> ArgumentCount {
        sum(self.iter().map(Argument::count))
    }

    #[inline(always)]
    fn write<'h>(&self, writer: &mut ArgumentWriter<'_, 'h>) -> Result<(), Box<Error>>
    where
        Self: 'h,
    {
        self.iter().try_for_each(|argument| argument.write(writer))
    }
}

impl<A: Argument, const N: usize> Sealed for [A; N] {}

/// A handle without an access is bound for reading and writing.
impl<T: Stored> Argument for &Handle<T> {
    #[inline(always)]
    fn count(&self) -> ArgumentCount {
        ArgumentCount::BINDING
    }

    #[inline(always)]
    fn write<'h>(&self, writer: &mut ArgumentWriter<'_, 'h>) -> Result<(), Box<Error>>
    where
        Self: 'h,
    {
        writer.binding(self, Access::ReadWrite)
    }
}

/// Scalars, with the element types that they are converted to.
macro_rules! scalar_arguments {
    ($($rust:ty => $element:ty),*) => {$(
        impl Sealed for $rust {}

        impl Argument for $rust {
            #[inline(always)]
            fn count(&self) -> ArgumentCount {
                ArgumentCount::SCALAR
            }

            #[inline(always)]
            fn write<'h>(&self, writer: &mut ArgumentWriter<'_, 'h>) -> Result<(), Box<Error>>
            where
                Self: 'h,
            {
                writer.scalar(*self as $element)
            }
        }
    )*};
}

scalar_arguments! {
    f64 => f64, i64 => i64, u64 => u64, f32 => f32, i32 => i32, u32 => u32, half::f16 => half::f16, half::bf16 => half::bf16,
    i16 => i16, u16 => u16, i8 => i8, u8 => u8, usize => u64, isize => i64, bool => u8
}

/// All arguments of a launch: bindings first, then scalars, both in declared order. A tuple,
/// [`LaunchArgs`], or a single argument. Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of a kernel's arguments",
    label = "expected a tuple of bound handles and scalars",
    note = "write a tuple of at most 16, such as `(read(&x), write(&y), 3_u32)`; a single argument needs no tuple, and `LaunchArgs` takes any number",
    note = "bind each handle with `read(&x)`, `write(&x)` or `update(&x)`; scalars are numbers or `bool`"
)]
pub trait Arguments: Sealed {
    /// Returns the number of arguments of each kind. For a tuple it is a constant.
    fn count(&self) -> ArgumentCount;

    /// Checks the arguments against the signature, and packs them.
    ///
    /// # Errors
    /// The first mismatch.
    fn write<'h>(&self, writer: &mut ArgumentWriter<'_, 'h>) -> Result<(), Box<Error>>
    where
        Self: 'h;
}

/// Adds the counts.
#[inline(always)]
fn sum(counts: impl Iterator<Item = ArgumentCount>) -> ArgumentCount {
    counts.fold(ArgumentCount::NONE, ArgumentCount::and)
}

macro_rules! tuple_arguments {
    ($(($($name:ident $index:tt),*))*) => {$(
        impl<$($name: Argument),*> Sealed for ($($name,)*) {}

        impl<$($name: Argument),*> Arguments for ($($name,)*) {
            #[inline(always)]
            fn count(&self) -> ArgumentCount {
                ArgumentCount::NONE$(.and(self.$index.count()))*
            }

            #[inline(always)]
            fn write<'h>(&self, _writer: &mut ArgumentWriter<'_, 'h>) -> Result<(), Box<Error>>
            where
                Self: 'h,
            {
                $(self.$index.write(_writer)?;)*
                Ok(())
            }
        }
    )*};
}

up_to_eight!(tuple_arguments);
nine_to_sixteen!(tuple_arguments);

/// A single argument without a tuple, so that `(update(&x))` works.
impl<A: Argument> Arguments for A {
    #[inline(always)]
    fn count(&self) -> ArgumentCount {
        Argument::count(self)
    }

    #[inline(always)]
    fn write<'h>(&self, writer: &mut ArgumentWriter<'_, 'h>) -> Result<(), Box<Error>>
    where
        Self: 'h,
    {
        Argument::write(self, writer)
    }
}

/// Arguments built at run time: any number of bindings and scalars, metadata and tensor maps.
///
/// ```
/// use millstream_client::arguments::{LaunchArgs, read};
/// # fn f(input: &millstream_client::handle::Handle<f32>) {
/// let args = LaunchArgs::new().arg(read(input)).arg(3_u32);
/// # }
/// ```
#[derive(Default)]
pub struct LaunchArgs<'a> {
    arguments: Vec<Box<dyn Argument + 'a>>,
    metadata: Option<Metadata>,
    tensor_maps: Vec<TensorMap>,
}

impl<'a> LaunchArgs<'a> {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a binding or a scalar.
    pub fn arg(mut self, argument: impl Argument + 'a) -> Self {
        self.arguments.push(Box::new(argument));
        self
    }

    /// Sets the metadata.
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Adds a tensor map over one of the bindings.
    pub fn tensor_map(mut self, map: TensorMap) -> Self {
        self.tensor_maps.push(map);
        self
    }
}

impl Sealed for LaunchArgs<'_> {}

impl Arguments for LaunchArgs<'_> {
    fn count(&self) -> ArgumentCount {
        sum(self.arguments.iter().map(Argument::count))
    }

    fn write<'h>(&self, writer: &mut ArgumentWriter<'_, 'h>) -> Result<(), Box<Error>>
    where
        Self: 'h,
    {
        self.arguments
            .iter()
            .try_for_each(|argument| Argument::write(argument, writer))?;
        if let Some(metadata) = &self.metadata {
            writer.metadata(metadata);
        }
        if !self.tensor_maps.is_empty() {
            writer.tensor_maps(&self.tensor_maps)?;
        }
        Ok(())
    }
}

impl Sealed for Box<dyn Argument + '_> {}

impl Argument for Box<dyn Argument + '_> {
    fn count(&self) -> ArgumentCount {
        (**self).count()
    }

    fn write<'h>(&self, writer: &mut ArgumentWriter<'_, 'h>) -> Result<(), Box<Error>>
    where
        Self: 'h,
    {
        (**self).write(writer)
    }
}

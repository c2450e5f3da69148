//! The arguments of a launch: a tuple of bindings and scalars, or a list made at run time.
//!
//! Arguments are checked against the signature first, on the caller's thread, and written into the
//! mailbox slot after that, which then cannot fail.

use std::sync::Arc;

use millstream_ir::DType;

use crate::access::Access;
use crate::element::Element;
use crate::error::{Error, LaunchError};
use crate::handle::{Binding, Handle, Hold, Table};
use crate::kernel::Signature;
use crate::launch::{INLINE_BINDINGS, INLINE_WORDS, Inline, Metadata, TensorMap};
use crate::message::Task;

/// A handle with an access: one binding of a launch.
pub struct Bound<'a, T: Element> {
    handle: &'a Handle<T>,
    access: Access,
}

impl<T: Element> Bound<'_, T> {
    /// The handle.
    pub fn handle(&self) -> &Handle<T> {
        self.handle
    }

    /// The access.
    pub fn access(&self) -> Access {
        self.access
    }
}

/// Binds a handle for reading.
#[inline]
pub fn read<T: Element>(handle: &Handle<T>) -> Bound<'_, T> {
    bind(handle, Access::Read)
}

/// Binds a handle for writing: the launch defines every byte of it.
#[inline]
pub fn write<T: Element>(handle: &Handle<T>) -> Bound<'_, T> {
    bind(handle, Access::Write)
}

/// Binds a handle for reading and writing.
#[inline]
pub fn update<T: Element>(handle: &Handle<T>) -> Bound<'_, T> {
    bind(handle, Access::ReadWrite)
}

/// Binds a handle with a given access.
#[inline]
pub fn bind<T: Element>(handle: &Handle<T>, access: Access) -> Bound<'_, T> {
    Bound { handle, access }
}

/// Arguments on their way through the checks of a signature.
pub struct ArgumentCheck<'a> {
    signature: &'a Signature,
    table: &'a Arc<Table>,
    bindings: usize,
    scalars: usize,
    /// Bindings so far, where they must not overlap.
    seen: Inline<Binding, INLINE_BINDINGS>,
    seen_more: Vec<Binding>,
    /// Holds on the handles, where they are to be kept: by a recording.
    kept: Option<Vec<Hold>>,
}

impl<'a> ArgumentCheck<'a> {
    pub(crate) fn new(signature: &'a Signature, table: &'a Arc<Table>) -> Self {
        Self {
            signature,
            table,
            bindings: 0,
            scalars: 0,
            seen: Inline::new(),
            seen_more: Vec::new(),
            kept: None,
        }
    }

    /// Keeps a hold on every handle.
    pub(crate) fn keeping(mut self) -> Self {
        self.kept = Some(Vec::new());
        self
    }

    /// The holds that were kept.
    pub(crate) fn take_kept(&mut self) -> Vec<Hold> {
        self.kept.take().unwrap_or_default()
    }

    /// Takes the next binding.
    ///
    /// # Errors
    /// What does not fit the signature.
    #[inline]
    pub(crate) fn binding<T: Element>(
        &mut self,
        handle: &Handle<T>,
        access: Access,
    ) -> Result<(), ArgumentError> {
        let Some(spec) = self.signature.bindings().get(self.bindings) else {
            self.bindings += 1; // Counted on: the sentence tells how many were given.
            return Ok(());
        };
        self.bindings += 1;
        if !Arc::ptr_eq(handle.hold().table(), self.table) {
            return Err(ArgumentError::Foreign);
        }
        if spec.access != access {
            return Err(LaunchError::Access {
                name: spec.name.clone(),
                declared: spec.access,
                given: access,
            }
            .into());
        }
        let size = spec.dtype.size() as u64;
        if spec.dtype != T::DTYPE {
            return Err(element_type(&spec.name, spec.dtype, T::DTYPE));
        }
        if !handle.start().is_multiple_of(size) {
            let name = spec.name.clone();
            return Err(LaunchError::Misaligned {
                name,
                offset: handle.start(),
                align: size,
            }
            .into());
        }
        if let Some(kept) = &mut self.kept {
            kept.push(handle.hold().clone());
        }
        self.see(handle.binding(access))
    }

    /// Refuses a binding that overlaps an earlier one where one of them is written.
    #[inline]
    fn see(&mut self, binding: Binding) -> Result<(), ArgumentError> {
        let specs = self.signature.bindings();
        let aliases =
            |index: usize| self.signature.aliases() && specs[index].share.is_shared_by_pointer();
        let mine = self.bindings - 1;
        for (index, earlier) in self.seen.iter().chain(&self.seen_more).enumerate() {
            if earlier.conflicts(&binding) && !(aliases(index) && aliases(mine)) {
                let (first, second) = (specs[index].name.clone(), specs[mine].name.clone());
                return Err(LaunchError::Overlap { first, second }.into());
            }
        }
        if let Err(binding) = self.seen.push(binding) {
            self.seen_more.push(binding);
        }
        Ok(())
    }

    /// Takes the next scalar.
    ///
    /// # Errors
    /// What does not fit the signature.
    #[inline]
    pub(crate) fn scalar(&mut self, dtype: DType) -> Result<(), ArgumentError> {
        let declared = self.signature.scalars().get(self.scalars);
        self.scalars += 1;
        match declared {
            Some(spec) if spec.dtype != dtype => Err(element_type(&spec.name, spec.dtype, dtype)),
            _ => Ok(()),
        }
    }

    /// Were all arguments given, and no more?
    #[inline]
    pub(crate) fn finish(self) -> Result<(), ArgumentError> {
        let (expected, given) = (self.signature.bindings().len(), self.bindings);
        if expected != given {
            return Err(LaunchError::BindingCount { expected, given }.into());
        }
        let (expected, given) = (self.signature.scalars().len(), self.scalars);
        if expected != given {
            return Err(LaunchError::ScalarCount { expected, given }.into());
        }
        Ok(())
    }
}

#[cold]
fn element_type(name: &Arc<str>, declared: DType, given: DType) -> ArgumentError {
    LaunchError::ElementType {
        name: name.clone(),
        declared,
        given,
    }
    .into()
}

/// Why an argument was not taken.
#[derive(Clone, Debug)]
pub enum ArgumentError {
    /// It does not fit the signature.
    Launch(LaunchError),
    /// It belongs to another device.
    Foreign,
}

impl From<LaunchError> for ArgumentError {
    fn from(error: LaunchError) -> Self {
        ArgumentError::Launch(error)
    }
}

impl ArgumentError {
    /// The error of `task`.
    #[cold]
    pub(crate) fn of(self, task: &Arc<str>) -> Error {
        match self {
            ArgumentError::Launch(source) => Error::Launch {
                task: task.clone(),
                source,
            },
            ArgumentError::Foreign => Error::Foreign { what: "handle" },
        }
    }
}

/// Arguments on their way into a task.
pub struct ArgumentWriter<'a> {
    signature: &'a Signature,
    task: &'a mut Task,
    scalars: usize,
}

impl<'a> ArgumentWriter<'a> {
    #[inline]
    pub(crate) fn new(signature: &'a Signature, task: &'a mut Task) -> Self {
        let words = signature.scalar_words();
        if words <= INLINE_WORDS {
            task.words.fill(words, 0);
        } else {
            task.extra.get_or_insert_default().words = vec![0; words];
        }
        Self {
            signature,
            task,
            scalars: 0,
        }
    }

    /// Writes the next binding.
    #[inline]
    pub(crate) fn binding(&mut self, binding: Binding) {
        self.task.push_binding(binding);
    }

    /// Writes the next scalar at its packed place.
    #[inline]
    pub(crate) fn scalar(&mut self, bytes: &[u8]) {
        let words: &mut [u64] = match &mut self.task.extra {
            Some(extra) if !extra.words.is_empty() => &mut extra.words,
            _ => &mut self.task.words,
        };
        if let Some(spec) = self.signature.scalars().get(self.scalars)
            && let Some(place) = bytemuck::cast_slice_mut::<u64, u8>(words)
                .get_mut(spec.offset..spec.offset + bytes.len())
        {
            place.copy_from_slice(bytes);
        }
        self.scalars += 1;
    }

    /// Writes metadata words.
    pub(crate) fn metadata(&mut self, metadata: &Metadata) {
        self.task.extra.get_or_insert_default().metadata = metadata.words();
    }

    /// Writes tensor maps.
    pub(crate) fn tensor_maps(&mut self, maps: &[TensorMap]) {
        self.task.extra.get_or_insert_default().tensor_maps = maps.to_vec();
    }
}

mod sealed {
    /// What is checked and what is written must be the same, so the traits of arguments are closed.
    pub trait Sealed {}
}

use sealed::Sealed;

/// One argument: a bound handle, a scalar, or an array of such. Sealed.
pub trait Argument: Sealed {
    /// Checks it against what comes next in the signature.
    ///
    /// # Errors
    /// What does not fit.
    fn check(&self, check: &mut ArgumentCheck<'_>) -> Result<(), ArgumentError>;

    /// Writes it into the task.
    fn write(&self, writer: &mut ArgumentWriter<'_>);
}

impl<T: Element> Sealed for Bound<'_, T> {}

impl<T: Element> Argument for Bound<'_, T> {
    #[inline]
    fn check(&self, check: &mut ArgumentCheck<'_>) -> Result<(), ArgumentError> {
        check.binding(self.handle, self.access)
    }

    #[inline]
    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        writer.binding(self.handle.binding(self.access));
    }
}

impl<T: Element> Sealed for &Handle<T> {}

/// Several arguments of one kind, one after the other.
impl<A: Argument, const N: usize> Argument for [A; N] {
    #[inline]
    fn check(&self, check: &mut ArgumentCheck<'_>) -> Result<(), ArgumentError> {
        self.iter().try_for_each(|argument| argument.check(check))
    }

    #[inline]
    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        self.iter().for_each(|argument| argument.write(writer));
    }
}

impl<A: Argument, const N: usize> Sealed for [A; N] {}

/// A handle without an access is read and written.
impl<T: Element> Argument for &Handle<T> {
    #[inline]
    fn check(&self, check: &mut ArgumentCheck<'_>) -> Result<(), ArgumentError> {
        check.binding(self, Access::ReadWrite)
    }

    #[inline]
    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        writer.binding(self.binding(Access::ReadWrite));
    }
}

macro_rules! scalar_arguments {
    ($($rust:ty),*) => {$(
        impl Sealed for $rust {}

        impl Argument for $rust {
            #[inline]
            fn check(&self, check: &mut ArgumentCheck<'_>) -> Result<(), ArgumentError> {
                check.scalar(<$rust as Element>::DTYPE)
            }

            #[inline]
            fn write(&self, writer: &mut ArgumentWriter<'_>) {
                writer.scalar(&self.to_ne_bytes());
            }
        }
    )*};
}

scalar_arguments! { f64, i64, u64, f32, i32, u32, i16, u16, i8, u8 }

/// All arguments of a launch: bindings first, then scalars, both in declared order. A tuple, or
/// [`LaunchArgs`]. Sealed.
pub trait Arguments: Sealed {
    /// Checks them against the signature.
    ///
    /// # Errors
    /// What does not fit.
    fn check(&self, check: &mut ArgumentCheck<'_>) -> Result<(), ArgumentError>;

    /// Writes them into the task.
    fn write(&self, writer: &mut ArgumentWriter<'_>);
}

macro_rules! tuple_arguments {
    ($(($($name:ident $index:tt),*))*) => {$(
        impl<$($name: Argument),*> Sealed for ($($name,)*) {}

        impl<$($name: Argument),*> Arguments for ($($name,)*) {
            #[inline]
            fn check(&self, _check: &mut ArgumentCheck<'_>) -> Result<(), ArgumentError> {
                $(self.$index.check(_check)?;)*
                Ok(())
            }

            #[inline]
            fn write(&self, _writer: &mut ArgumentWriter<'_>) {
                $(self.$index.write(_writer);)*
            }
        }
    )*};
}

tuple_arguments! {
    ()
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15)
}

/// Arguments made at run time: any number of bindings and scalars, metadata and tensor maps.
///
/// ```
/// use millstream_core::launch::{LaunchArgs, read};
/// # fn f(input: &millstream_core::handle::Handle<f32>) {
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
    /// No arguments.
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
    fn check(&self, check: &mut ArgumentCheck<'_>) -> Result<(), ArgumentError> {
        self.arguments
            .iter()
            .try_for_each(|argument| argument.check(check))?;
        let bindings = check.signature.bindings().len();
        match self.tensor_maps.iter().find(|map| map.binding >= bindings) {
            Some(map) => Err(LaunchError::TensorMapBinding {
                binding: map.binding,
                bindings,
            }
            .into()),
            None => Ok(()),
        }
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        self.arguments
            .iter()
            .for_each(|argument| argument.write(writer));
        if let Some(metadata) = &self.metadata {
            writer.metadata(metadata);
        }
        if !self.tensor_maps.is_empty() {
            writer.tensor_maps(&self.tensor_maps);
        }
    }
}

impl<A: Arguments + ?Sized> Sealed for &A {}

impl<A: Arguments + ?Sized> Arguments for &A {
    fn check(&self, check: &mut ArgumentCheck<'_>) -> Result<(), ArgumentError> {
        (**self).check(check)
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        (**self).write(writer);
    }
}

impl Sealed for Box<dyn Argument + '_> {}

impl Argument for Box<dyn Argument + '_> {
    fn check(&self, check: &mut ArgumentCheck<'_>) -> Result<(), ArgumentError> {
        (**self).check(check)
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        (**self).write(writer);
    }
}

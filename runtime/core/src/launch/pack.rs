//! Packing the arguments of one launch: each is checked against the signature and written to its place
//! at once, on the caller's thread and stack. Moving the packed arguments into a mailbox slot cannot fail.
//!
//! A launch of a few arguments is a straight line of code here: what is rare (errors, more than fits
//! inline) is in cold functions of its own.

use std::mem::ManuallyDrop;
use std::slice;
use std::sync::Arc;

use millstream_ir::DType;

use crate::access::Access;
use crate::element::Element;
use crate::error::{Error, LaunchError};
use crate::handle::{Binding, Handle, Hold, Table};
use crate::kernel::{BindingSpec, ScalarSpec, Share, Signature};
use crate::launch::{ArgumentCount, INLINE_BINDINGS, INLINE_WORDS, Inline, Metadata, TensorMap};
use crate::message::{Extra, Task};

/// Arguments on their way into a task: each is checked against what comes next in the signature and
/// packed at once. The packed arguments are moved into the mailbox slot later, which cannot fail.
pub struct ArgumentWriter<'a> {
    signature: &'a Signature,
    table: &'a Arc<Table>,
    checked: bool,
    /// What is still to be given: as much as will be, which is counted first.
    bindings: slice::Iter<'a, BindingSpec>,
    scalars: slice::Iter<'a, ScalarSpec>,
    /// Does a binding so far write?
    writes: bool,
    packed: &'a mut Packed,
    /// Where holds on the handles go, if they are to be kept: by a recording.
    kept: Option<&'a mut Vec<Hold>>,
}

/// Packed arguments of one task.
pub(crate) struct Packed {
    bindings: Inline<Binding, INLINE_BINDINGS>,
    /// Full if there are any, so that scalars find their places without counting; `word_count` are in use.
    /// Of more words than that these are the first.
    words: Inline<u64, INLINE_WORDS>,
    word_count: usize,
    /// Nearly always none: see the `Drop`.
    extra: ManuallyDrop<Option<Box<Extra>>>,
}

impl Drop for Packed {
    /// Looks before it calls: a launch without extra pays for one comparison.
    #[inline]
    fn drop(&mut self) {
        if self.extra.is_some() {
            drop(self.extra.take());
        }
    }
}

impl Packed {
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            bindings: Inline::new(),
            words: Inline::new(),
            word_count: 0,
            extra: ManuallyDrop::new(None),
        }
    }

    /// Moves the arguments into a task that has none.
    #[inline]
    pub(crate) fn move_to(&mut self, task: &mut Task) {
        task.bindings.copy_from(&self.bindings);
        task.words.copy_first(&self.words, self.word_count);
        if let Some(mut extra) = self.extra.take() {
            if !extra.words.is_empty() {
                extra.words[..INLINE_WORDS].copy_from_slice(&self.words);
            }
            task.extra = Some(extra);
        }
    }

    #[inline]
    fn push(&mut self, binding: Binding) {
        if let Err(binding) = self.bindings.push(binding) {
            self.push_more(binding);
        }
    }

    #[cold]
    fn make_room(&mut self, words: usize) {
        self.extra.get_or_insert_default().words = vec![0; words];
    }

    /// Puts a scalar beyond the inline words.
    #[cold]
    fn put_further(&mut self, offset: usize, value: &[u8]) {
        if let Some(extra) = &mut *self.extra
            && let Some(room) =
                bytemuck::cast_slice_mut(&mut extra.words).get_mut(offset..offset + value.len())
        {
            room.copy_from_slice(value);
        }
    }

    #[cold]
    fn push_more(&mut self, binding: Binding) {
        self.extra.get_or_insert_default().bindings.push(binding);
    }

    /// Shares an earlier binding a byte with `binding` where one of them is written?
    #[inline]
    fn conflicts(&self, binding: &Binding) -> bool {
        self.bindings
            .iter()
            .any(|earlier| earlier.conflicts(binding))
            || self.extra.as_ref().is_some_and(|extra| {
                extra
                    .bindings
                    .iter()
                    .any(|earlier| earlier.conflicts(binding))
            })
    }

    /// The first earlier binding that shares a byte with `binding`, the next one, where one of them is
    /// written and the signature does not say that the two may.
    #[cold]
    fn conflicting(&self, signature: &Signature, binding: &Binding) -> Option<usize> {
        let more: &[Binding] = self.extra.as_ref().map_or(&[], |extra| &extra.bindings);
        let mine = self.bindings.len() + more.len();
        let aliases = |index: usize| {
            let share = signature.bindings().get(index).map(|spec| spec.share);
            signature.aliases() && share.is_some_and(Share::is_shared_by_pointer)
        };
        let conflicts = |(index, earlier): (usize, &Binding)| {
            earlier.conflicts(binding) && !(aliases(index) && aliases(mine))
        };
        self.bindings
            .iter()
            .chain(more)
            .enumerate()
            .position(conflicts)
    }
}

impl<'a> ArgumentWriter<'a> {
    /// A writer of as many arguments as will be given.
    ///
    /// # Errors
    /// When the signature declares more or fewer.
    #[inline(always)]
    pub(crate) fn new(
        signature: &'a Signature,
        table: &'a Arc<Table>,
        packed: &'a mut Packed,
        given: ArgumentCount,
    ) -> Result<Self, ArgumentError> {
        let (bindings, scalars) = (signature.bindings(), signature.scalars());
        if bindings.len() != given.bindings || scalars.len() != given.scalars {
            return Err(miscounted(signature, given));
        }
        Ok(Self {
            checked: true,
            ..Self::unchecked(signature, table, packed, given)
        })
    }

    /// A writer that takes arguments as they are.
    #[inline(always)]
    pub(crate) fn unchecked(
        signature: &'a Signature,
        table: &'a Arc<Table>,
        packed: &'a mut Packed,
        given: ArgumentCount,
    ) -> Self {
        if given.scalars > 0 {
            let words = signature.scalar_words();
            packed.words.fill(INLINE_WORDS, 0);
            packed.word_count = words;
            if words > INLINE_WORDS {
                packed.make_room(words);
            }
        }
        Self {
            signature,
            table,
            checked: false,
            bindings: signature.bindings().iter(),
            scalars: signature.scalars().iter(),
            writes: false,
            packed,
            kept: None,
        }
    }

    /// Keeps a hold on every handle.
    pub(crate) fn keeping(mut self, kept: &'a mut Vec<Hold>) -> Self {
        self.kept = Some(kept);
        self
    }

    /// Takes the next binding.
    ///
    /// # Errors
    /// What does not fit the signature.
    #[inline(always)]
    pub(crate) fn binding<T: Element>(
        &mut self,
        handle: &Handle<T>,
        access: Access,
    ) -> Result<(), ArgumentError> {
        let binding = handle.binding(access);
        if self.checked {
            let Some(spec) = self.bindings.next() else {
                return Ok(());
            };
            let fits = Arc::ptr_eq(handle.hold().table(), self.table)
                && spec.access == access
                && spec.dtype == T::DTYPE
                && handle.start().is_multiple_of(size_of::<T>() as u64);
            if !fits {
                return Err(misfit(spec, self.table, handle, access));
            }
            self.writes |= access.writes();
            if self.writes
                && self.packed.conflicts(&binding)
                && let Some(earlier) = self.packed.conflicting(self.signature, &binding)
            {
                let mine = self.signature.bindings().len() - self.bindings.len() - 1;
                return Err(overlap(self.signature, earlier, mine));
            }
        }
        if let Some(kept) = &mut self.kept {
            kept.push(handle.hold().clone());
        }
        self.packed.push(binding);
        Ok(())
    }

    /// Takes the next scalar.
    ///
    /// # Errors
    /// What does not fit the signature.
    #[inline(always)]
    pub(crate) fn scalar<T: Element>(&mut self, value: T) -> Result<(), ArgumentError> {
        let Some(spec) = self.scalars.next() else {
            return Ok(());
        };
        if spec.dtype != T::DTYPE {
            return Err(element_type(&spec.name, spec.dtype, T::DTYPE));
        }
        let value = bytemuck::bytes_of(&value);
        match self.packed.words.as_full_mut() {
            // Scalars do not straddle words, so one that begins inline ends there.
            Some(words) if spec.offset <= size_of_val(words) - size_of::<T>() => {
                let bytes: &mut [u8; INLINE_WORDS * 8] = bytemuck::cast_mut(words);
                bytes[spec.offset..][..size_of::<T>()].copy_from_slice(value);
            }
            _ => self.packed.put_further(spec.offset, value),
        }
        Ok(())
    }

    /// Takes metadata words.
    pub(crate) fn metadata(&mut self, metadata: &Metadata) {
        self.packed.extra.get_or_insert_default().metadata = metadata.words();
    }

    /// Takes tensor maps over bindings of the launch.
    ///
    /// # Errors
    /// When a map is over a binding that is not declared.
    pub(crate) fn tensor_maps(&mut self, maps: &[TensorMap]) -> Result<(), ArgumentError> {
        let bindings = self.signature.bindings().len();
        if let Some(map) = maps.iter().find(|map| map.binding >= bindings) {
            let binding = map.binding;
            return Err(LaunchError::TensorMapBinding { binding, bindings }.into());
        }
        self.packed.extra.get_or_insert_default().tensor_maps = maps.to_vec();
        Ok(())
    }
}

/// Which of the reasons for which a binding does not fit it is.
#[cold]
fn misfit<T: Element>(
    spec: &BindingSpec,
    table: &Arc<Table>,
    handle: &Handle<T>,
    given: Access,
) -> ArgumentError {
    if !Arc::ptr_eq(handle.hold().table(), table) {
        return ArgumentError::foreign();
    }
    let name = spec.name.clone();
    if spec.access != given {
        let declared = spec.access;
        return LaunchError::Access {
            name,
            declared,
            given,
        }
        .into();
    }
    if spec.dtype != T::DTYPE {
        return element_type(&name, spec.dtype, T::DTYPE);
    }
    let (offset, align) = (handle.start(), size_of::<T>() as u64);
    LaunchError::Misaligned {
        name,
        offset,
        align,
    }
    .into()
}

#[cold]
fn overlap(signature: &Signature, first: usize, second: usize) -> ArgumentError {
    let name = |index: usize| signature.bindings()[index].name.clone();
    LaunchError::Overlap {
        first: name(first),
        second: name(second),
    }
    .into()
}

#[cold]
fn miscounted(signature: &Signature, given: ArgumentCount) -> ArgumentError {
    let expected = signature.bindings().len();
    if given.bindings != expected {
        let given = given.bindings;
        return LaunchError::BindingCount { expected, given }.into();
    }
    let (expected, given) = (signature.scalars().len(), given.scalars);
    LaunchError::ScalarCount { expected, given }.into()
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
pub struct ArgumentError(Box<Misfit>);

/// Boxed, so that the answer of each step of a good launch is one word.
#[derive(Clone, Debug)]
enum Misfit {
    /// It does not fit the signature.
    Launch(LaunchError),
    /// It belongs to another device.
    Foreign,
}

impl From<LaunchError> for ArgumentError {
    #[cold]
    fn from(error: LaunchError) -> Self {
        ArgumentError(Box::new(Misfit::Launch(error)))
    }
}

impl ArgumentError {
    #[cold]
    fn foreign() -> Self {
        ArgumentError(Box::new(Misfit::Foreign))
    }

    /// The error of `task`.
    #[cold]
    pub(crate) fn of(self, task: &Arc<str>) -> Error {
        match *self.0 {
            Misfit::Launch(why) => Error::Launch {
                task: task.clone(),
                why,
            },
            Misfit::Foreign => Error::Foreign { what: "handle" },
        }
    }
}

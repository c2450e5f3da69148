//! Packing the arguments of one launch: each is checked against the signature and written to its place
//! at once, on the caller's thread and stack. Moving the packed arguments into a mailbox slot cannot fail.
//!
//! A launch of a few arguments is a straight line of code here: what is rare (errors, more than fits
//! inline) is in cold functions of its own.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use millstream_ir::DType;

use crate::access::Access;
use crate::element::Element;
use crate::error::{Error, LaunchError};
use crate::handle::{Binding, Handle, Hold, Table};
use crate::kernel::{BindingSpec, Share, Signature};
use crate::launch::{INLINE_BINDINGS, INLINE_WORDS, Inline, Metadata, TensorMap};
use crate::message::{Extra, Task};

/// Arguments on their way into a task: each is checked against what comes next in the signature and
/// packed at once. The packed arguments are moved into the mailbox slot later, which cannot fail.
pub struct ArgumentWriter<'a> {
    signature: &'a Signature,
    table: &'a Arc<Table>,
    checked: bool,
    /// Arguments given so far.
    bindings: usize,
    scalars: usize,
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
        if self.extra.is_some() {
            task.extra = self.extra.take();
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

    #[cold]
    fn more_words(&mut self) -> &mut [u64] {
        match &mut *self.extra {
            Some(extra) => &mut extra.words,
            None => &mut [],
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
    #[inline(always)]
    pub(crate) fn new(
        signature: &'a Signature,
        table: &'a Arc<Table>,
        packed: &'a mut Packed,
    ) -> Self {
        let words = signature.scalar_words();
        if words > INLINE_WORDS {
            packed.make_room(words);
        } else if words > 0 {
            packed.words.fill(INLINE_WORDS, 0);
            packed.word_count = words;
        }
        Self {
            signature,
            table,
            checked: true,
            bindings: 0,
            scalars: 0,
            writes: false,
            packed,
            kept: None,
        }
    }

    /// Takes the arguments as they are.
    pub(crate) fn unchecked(mut self) -> Self {
        self.checked = false;
        self
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
            let Some(spec) = self.signature.bindings().get(self.bindings) else {
                self.bindings += 1; // Counted on: the sentence tells how many were given.
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
                return Err(overlap(self.signature, earlier, self.bindings));
            }
        }
        if let Some(kept) = &mut self.kept {
            kept.push(handle.hold().clone());
        }
        self.bindings += 1;
        self.packed.push(binding);
        Ok(())
    }

    /// Takes the next scalar.
    ///
    /// # Errors
    /// What does not fit the signature.
    #[inline(always)]
    pub(crate) fn scalar<T: Element>(&mut self, value: T) -> Result<(), ArgumentError> {
        let Some(spec) = self.signature.scalars().get(self.scalars) else {
            self.scalars += 1; // Counted on, as above.
            return Ok(());
        };
        if spec.dtype != T::DTYPE {
            return Err(element_type(&spec.name, spec.dtype, T::DTYPE));
        }
        self.scalars += 1;
        // Scalars are packed by type, so an offset is a multiple of the size.
        let place = spec.offset / size_of::<T>();
        if let Some(words) = self.packed.words.as_full_mut() {
            if let Some(place) = bytemuck::cast_slice_mut::<u64, T>(words).get_mut(place) {
                *place = value;
            }
        } else if let Some(place) =
            bytemuck::cast_slice_mut(self.packed.more_words()).get_mut(place)
        {
            *place = value;
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

    /// Were all arguments given, and no more?
    #[inline(always)]
    pub(crate) fn finish(self) -> Result<(), ArgumentError> {
        let bindings = self.signature.bindings().len();
        let scalars = self.signature.scalars().len();
        if self.checked && (bindings != self.bindings || scalars != self.scalars) {
            return Err(miscounted(bindings, self.bindings, scalars, self.scalars));
        }
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
fn miscounted(
    bindings: usize,
    given: usize,
    scalars: usize,
    scalars_given: usize,
) -> ArgumentError {
    if bindings != given {
        let expected = bindings;
        return LaunchError::BindingCount { expected, given }.into();
    }
    let (expected, given) = (scalars, scalars_given);
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

//! Packing the arguments of one launch: each is checked against the signature and written to its place
//! at once, on the caller's thread and stack. Moving the packed arguments into a mailbox slot cannot fail.
//!
//! A launch of a few arguments is a straight line of code here: what is rare (errors, more than fits
//! inline) is in cold functions of its own.

use std::mem::{ManuallyDrop, MaybeUninit};
use std::slice;
use std::sync::Arc;

use millstream_protocol::access::Access;
use millstream_protocol::binding::Binding;
use millstream_protocol::element::Element;
use millstream_protocol::error::LaunchError;
use millstream_protocol::kernel::{BindingSpec, ScalarSpec, Share, Signature};
use millstream_protocol::launch::{INLINE_BINDINGS, INLINE_WORDS, Inline, Metadata, TensorMap};
use millstream_protocol::message::Rare;
use millstream_protocol::message::{Extra, Task};
use millstream_protocol::table::{Hold, Table};

use crate::arguments::ArgumentCount;
use crate::arguments::misfit::{
    ArgumentError, Typed, is_fresh, miscounted, misfit, overlap, scalar_type,
};
use crate::handle::Handle;

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
    packed: &'a mut Inline<Binding, INLINE_BINDINGS>,
    words: Option<&'a mut [u64; INLINE_WORDS]>,
    extra: &'a mut Option<Box<Extra>>,
    /// Where holds on the handles go, if they are to be kept: by a recording.
    kept: Option<&'a mut Vec<Hold>>,
}

/// Packed arguments of one task.
pub(crate) struct Packed {
    bindings: Inline<Binding, INLINE_BINDINGS>,
    /// The first `word_count` are in use; of more than there is room for, these are the first. Written
    /// if any are in use.
    words: MaybeUninit<[u64; INLINE_WORDS]>,
    word_count: usize,
    /// Nearly always none: see the `Drop`.
    extra: ManuallyDrop<Option<Box<Extra>>>,
}

impl Drop for Packed {
    /// Looks before it calls: a launch without extra pays for one comparison.
    #[inline(always)]
    fn drop(&mut self) {
        if self.extra.is_some() {
            self.drop_extra();
        }
    }
}

impl Packed {
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            bindings: Inline::new(),
            words: MaybeUninit::uninit(),
            word_count: 0,
            extra: ManuallyDrop::new(None),
        }
    }

    #[cold]
    fn drop_extra(&mut self) {
        drop(self.extra.take());
    }

    /// The bindings, in declared order.
    pub(crate) fn bindings(&self) -> impl Iterator<Item = Binding> {
        let more = self.extra.iter().flat_map(|extra| &extra.bindings);
        self.bindings.iter().chain(more).copied()
    }

    /// Moves the arguments into a task that has none.
    #[inline]
    pub(crate) fn move_to(&mut self, task: &mut Task) {
        task.bindings.copy_from(&self.bindings);
        if self.word_count > 0 {
            // SAFETY: words that are in use were written.
            let words = unsafe { self.words.assume_init_ref() };
            task.set_first_words(words, self.word_count);
            if let Some(extra) = &mut *self.extra
                && !extra.words.is_empty()
            {
                extra.words[..INLINE_WORDS].copy_from_slice(words);
            }
        }
        if let Some(more) = self.extra.take() {
            task.extra = Rare::of(more);
        }
    }
}

/// Where bindings are packed.
impl ArgumentWriter<'_> {
    #[inline]
    fn push(&mut self, binding: Binding) {
        if let Err(binding) = self.packed.push(binding) {
            self.push_more(binding);
        }
    }

    #[cold]
    fn push_more(&mut self, binding: Binding) {
        self.extra.get_or_insert_default().bindings.push(binding);
    }

    /// Shares an earlier binding a byte with `binding` where one of them is written?
    #[inline(always)]
    fn conflicts(&self, binding: &Binding) -> bool {
        let conflicts = |earlier: &Binding| earlier.conflicts(binding);
        self.packed.iter().any(conflicts)
            || (self.extra.is_some()
                && self
                    .extra
                    .iter()
                    .flat_map(|extra| &extra.bindings)
                    .any(conflicts))
    }

    /// The first earlier binding that shares a byte with `binding`, the next one, where one of them is
    /// written and the signature does not say that the two may.
    #[cold]
    fn conflicting(&self, signature: &Signature, binding: &Binding) -> Option<usize> {
        let more: &[Binding] = self.extra.as_ref().map_or(&[], |extra| &extra.bindings);
        let mine = self.packed.len() + more.len();
        let aliases = |index: usize| {
            let share = signature.bindings().get(index).map(|spec| spec.share);
            signature.aliases() && share.is_some_and(Share::is_shared_by_pointer)
        };
        let conflicts = |(index, earlier): (usize, &Binding)| {
            earlier.conflicts(binding) && !(aliases(index) && aliases(mine))
        };
        self.packed
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
        let Packed {
            bindings,
            words,
            word_count,
            extra,
        } = packed;
        let extra: &mut Option<Box<Extra>> = extra;
        let words = (given.scalars > 0).then(|| {
            *word_count = signature.scalar_words();
            if *word_count > INLINE_WORDS {
                make_room(extra, *word_count);
            }
            words.write([0; INLINE_WORDS])
        });
        Self {
            signature,
            table,
            checked: false,
            bindings: signature.bindings().iter(),
            scalars: signature.scalars().iter(),
            writes: false,
            packed: bindings,
            words,
            extra,
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
        self.bind(handle, access, Typed::Yes)
    }

    /// Takes the next binding as bytes: whole elements of the type that the signature declares.
    ///
    /// # Errors
    /// What does not fit the signature.
    pub(crate) fn bytes(
        &mut self,
        handle: &Handle<u8>,
        access: Access,
    ) -> Result<(), ArgumentError> {
        self.bind(handle, access, Typed::No)
    }

    #[inline(always)]
    fn bind<T: Element>(
        &mut self,
        handle: &Handle<T>,
        access: Access,
        typed: Typed,
    ) -> Result<(), ArgumentError> {
        let binding = handle.binding(access);
        if self.checked {
            let Some(spec) = self.bindings.next() else {
                return Ok(());
            };
            let fits = Arc::ptr_eq(handle.hold().table(), self.table)
                && (spec.access == access || is_fresh(spec.access, access, typed))
                && match typed {
                    // A view of such elements starts at one, and is whole ones.
                    Typed::Yes => spec.dtype == T::DTYPE,
                    Typed::No => {
                        let element = spec.dtype.size() as u64;
                        handle.start().is_multiple_of(element)
                            && handle.size().is_multiple_of(element)
                    }
                };
            if !fits {
                return Err(misfit(spec, self.table, handle, access, typed));
            }
            self.writes |= access.writes();
            if self.writes
                && self.conflicts(&binding)
                && let Some(earlier) = self.conflicting(self.signature, &binding)
            {
                let mine = self.signature.bindings().len() - self.bindings.len() - 1;
                return Err(overlap(self.signature, earlier, mine));
            }
        }
        if let Some(kept) = &mut self.kept {
            kept.push(handle.hold().clone());
        }
        self.push(binding);
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
            return Err(scalar_type(&spec.name, spec.dtype, T::DTYPE));
        }
        let value = bytemuck::bytes_of(&value);
        match &mut self.words {
            // Scalars do not straddle words, so one that begins inline ends there.
            Some(words) if spec.offset <= INLINE_WORDS * 8 - size_of::<T>() => {
                let bytes: &mut [u8; INLINE_WORDS * 8] = bytemuck::cast_mut(*words);
                bytes[spec.offset..][..size_of::<T>()].copy_from_slice(value);
            }
            _ => put_further(self.extra, spec.offset, value),
        }
        Ok(())
    }

    /// Takes all scalars, packed.
    ///
    /// # Errors
    /// When the signature packs more or fewer words.
    pub(crate) fn words(&mut self, given: &[u64]) -> Result<(), ArgumentError> {
        let expected = self.signature.scalar_words();
        if given.len() != expected {
            let given = given.len();
            return Err(LaunchError::WordCount { expected, given }.into());
        }
        self.scalars = [].iter();
        let (inline, further) = given.split_at(expected.min(INLINE_WORDS));
        if let Some(words) = &mut self.words {
            words[..inline.len()].copy_from_slice(inline);
        }
        if let Some(extra) = self.extra
            && !further.is_empty()
        {
            extra.words[INLINE_WORDS..].copy_from_slice(further);
        }
        Ok(())
    }

    /// Takes metadata words.
    pub(crate) fn metadata(&mut self, metadata: &Metadata) {
        self.metadata_words(metadata.words());
    }

    /// Takes metadata that are laid out.
    pub(crate) fn metadata_words(&mut self, words: Vec<u32>) {
        self.extra.get_or_insert_default().metadata = words;
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
        self.extra.get_or_insert_default().tensor_maps = maps.to_vec();
        Ok(())
    }
}

/// Makes room for more scalars than fit inline.
#[cold]
fn make_room(extra: &mut Option<Box<Extra>>, words: usize) {
    extra.get_or_insert_default().words = vec![0; words];
}

/// Puts a scalar beyond the inline words.
#[cold]
fn put_further(extra: &mut Option<Box<Extra>>, offset: usize, value: &[u8]) {
    if let Some(extra) = extra
        && let Some(room) =
            bytemuck::cast_slice_mut(&mut extra.words).get_mut(offset..offset + value.len())
    {
        room.copy_from_slice(value);
    }
}

//! Packs the arguments of one launch. Each argument is checked against the signature and written to its place,
//! on the caller's thread and stack. Moving the packed arguments into a mailbox slot cannot fail.
//!
//! A launch with few arguments runs straight-line code here; rare cases (errors, arguments that do not fit
//! inline) are in cold functions.

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::slice;

use millstream_protocol::{
    Access, ArgumentError, ArgumentErrorKind, Binding, BindingSpec, Element, Error, Extra,
    INLINE_BINDINGS, INLINE_WORDS, Inline, Metadata, ScalarSpec, Share, Signature, Stored, Table,
    Task, TaskExtras, TensorMap, recording::ScalarSlot,
};

use crate::arguments::mismatch::{
    FOREIGN_PARAMETER, Typed, is_fresh, miscounted, mismatch, overlap, refused, scalar_parameter,
    scalar_type, surplus,
};
use crate::arguments::{ArgumentCount, RecordedArguments, ScalarParameter};
use crate::handle::Handle;
use crate::{DeviceShared, KernelHandle};

/// Checks the arguments of one launch against its signature, and packs them. Moving the packed arguments into the
/// mailbox slot afterwards cannot fail.
///
/// Packed bindings are plain numbers, so every handle lives for `'h`, until the launch is sent (I4).
pub struct ArgumentWriter<'a, 'h> {
    kernel: &'a KernelHandle,
    device: &'a DeviceShared,
    /// That of the device. Here, so that it stays in a register.
    table: &'a Table,
    /// The specs of the arguments that are still to be written. Their number was compared in advance.
    bindings: slice::Iter<'a, BindingSpec>,
    scalars: slice::Iter<'a, ScalarSpec>,
    /// The number of bindings that were written. A constant to the compiler, where the arguments are a tuple.
    written: usize,
    /// Whether a binding so far writes.
    writes: bool,
    packed: &'a mut Inline<Binding, INLINE_BINDINGS>,
    words: Option<&'a mut [u64; INLINE_WORDS]>,
    extra: &'a mut Option<Box<Extra>>,
    /// Receives a reference to each handle, and the slots of scalar parameters, for a recording.
    recorded: Option<&'a mut RecordedArguments>,
    /// A writer of shorter borrows also takes longer ones.
    handles: PhantomData<fn(&'h ())>,
}

/// The packed arguments of one task.
pub(crate) struct Packed {
    bindings: Inline<Binding, INLINE_BINDINGS>,
    /// The first `word_count` words, up to the inline capacity; further words are in `extra`. Initialized if
    /// `word_count` is not 0.
    words: MaybeUninit<[u64; INLINE_WORDS]>,
    word_count: usize,
    /// Usually `None`; see the `Drop` impl.
    extra: ManuallyDrop<Option<Box<Extra>>>,
}

impl Drop for Packed {
    /// Compares before calling the drop glue, so that a launch without extra arguments pays for one comparison.
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

    /// Returns the bindings, in declared order.
    pub(crate) fn bindings(&self) -> impl Iterator<Item = Binding> {
        let more = self.extra.iter().flat_map(|extra| &extra.bindings);
        self.bindings.iter().chain(more).copied()
    }

    /// Moves the arguments into a task without arguments.
    #[inline]
    pub(crate) fn move_to(&mut self, task: &mut Task) {
        task.bindings.copy_from(&self.bindings);
        if self.word_count > 0 {
            // SAFETY: `word_count` is greater than 0, so the words are initialized.
            let words = unsafe { self.words.assume_init_ref() };
            task.set_first_words(words, self.word_count);
            if let Some(extra) = &mut *self.extra
                && !extra.words.is_empty()
            {
                extra.words[..INLINE_WORDS].copy_from_slice(words);
            }
        }
        if let Some(more) = self.extra.take() {
            task.extra = TaskExtras::of(more);
        }
    }
}

// What follows is functions of the parts of a writer instead of methods: a writer whose address no call takes stays in
// registers.

/// Returns `true` if an earlier binding shares a byte with `binding` and one of the two is written.
#[inline(always)]
fn conflicts(
    packed: &Inline<Binding, INLINE_BINDINGS>,
    extra: &Option<Box<Extra>>,
    binding: &Binding,
) -> bool {
    packed.iter().any(|earlier| earlier.conflicts(binding))
        || extra
            .as_ref()
            .is_some_and(|extra| conflicts_with_further(extra, *binding))
}

/// As [`conflicts`], for the bindings beyond the inline room.
#[cold]
#[inline(never)]
fn conflicts_with_further(extra: &Extra, binding: Binding) -> bool {
    extra
        .bindings
        .iter()
        .any(|earlier| earlier.conflicts(&binding))
}

/// Adds a binding beyond the inline room.
#[cold]
#[inline(never)]
fn push_further(extra: &mut Option<Box<Extra>>, binding: Binding) {
    extra.get_or_insert_default().bindings.push(binding);
}

/// Returns the index of the first earlier binding that conflicts with `binding`, the next one, and the bytes that both
/// have, unless the signature allows the two to alias.
#[cold]
#[inline(never)]
fn conflicting(
    packed: &Inline<Binding, INLINE_BINDINGS>,
    extra: &Option<Box<Extra>>,
    signature: &Signature,
    binding: Binding,
) -> Option<(usize, u64)> {
    let more: &[Binding] = extra.as_ref().map_or(&[], |extra| &extra.bindings);
    let mine = packed.len() + more.len();
    let aliases = |index: usize| {
        let share = signature.bindings().get(index).map(|spec| spec.share);
        signature.aliases() && share.is_some_and(Share::is_shared_by_pointer)
    };
    let conflicts = |(index, earlier): (usize, &Binding)| {
        earlier.conflicts(&binding) && !(aliases(index) && aliases(mine))
    };
    packed
        .iter()
        .chain(more)
        .enumerate()
        .find(|candidate| conflicts(*candidate))
        .map(|(index, earlier)| (index, earlier.shared_bytes(&binding)))
}

impl<'a, 'h> ArgumentWriter<'a, 'h> {
    /// Creates a writer for `given` arguments.
    ///
    /// # Errors
    /// If the signature declares a different number.
    // Unoptimized programs have one copy of this and of `bind`: they build in less time.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn new(
        (kernel, device): (&'a KernelHandle, &'a DeviceShared),
        packed: &'a mut Packed,
        given: ArgumentCount,
    ) -> Result<Self, Box<Error>> {
        let signature = kernel.kernel.signature();
        let (bindings, scalars) = (signature.bindings(), signature.scalars());
        if bindings.len() != given.bindings || scalars.len() != given.scalars {
            return Err(miscounted(kernel, given));
        }
        let Packed {
            bindings: packed,
            words,
            word_count,
            extra,
        } = packed;
        let extra: &mut Option<Box<Extra>> = extra;
        let words = (given.scalars > 0).then(|| {
            *word_count = signature.scalar_words();
            if *word_count > INLINE_WORDS {
                allocate_words(extra, *word_count);
            }
            words.write([0; INLINE_WORDS])
        });
        Ok(Self {
            kernel,
            device,
            table: device.table(),
            bindings: bindings.iter(),
            scalars: scalars.iter(),
            written: 0,
            writes: false,
            packed,
            words,
            extra,
            recorded: None,
            handles: PhantomData,
        })
    }

    /// Adds a reference to every handle, and the slot of every scalar parameter, to `recorded`.
    pub(crate) fn recorded_by(mut self, recorded: &'a mut RecordedArguments) -> Self {
        self.recorded = Some(recorded);
        self
    }

    /// Writes the next binding.
    ///
    /// # Errors
    /// The mismatch with the signature.
    #[inline(always)]
    pub(crate) fn binding<T: Stored>(
        &mut self,
        handle: &'h Handle<T>,
        access: Access,
    ) -> Result<(), Box<Error>> {
        self.bind(handle, access, Typed::Yes)
    }

    /// Writes the next binding as bytes: whole elements of the type that the signature declares. A binding that the
    /// kernel declares as [`Access::ReadWrite`] may be given as [`Access::Write`]
    /// ([`Stream::launch_words`](crate::Stream::launch_words)).
    ///
    /// # Errors
    /// The mismatch with the signature.
    #[inline]
    pub fn bytes(&mut self, handle: &'h Handle<u8>, access: Access) -> Result<(), Box<Error>> {
        self.bind(handle, access, Typed::No)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn bind<T: Stored>(
        &mut self,
        handle: &'h Handle<T>,
        access: Access,
        typed: Typed,
    ) -> Result<(), Box<Error>> {
        const {
            assert!(
                size_of::<T>().is_multiple_of(T::WORD.size()),
                "an element consists of whole words"
            );
        };
        let binding = handle.binding(access);
        let Some(spec) = self.bindings.next() else {
            return Err(surplus(self.kernel, ArgumentCount::BINDING));
        };
        let fits = std::ptr::eq(&**handle.hold().table(), self.table)
            && (spec.access == access || is_fresh(spec.access, access, typed))
            && match typed {
                // A view of the declared type is aligned and of whole elements, so comparing the types suffices.
                Typed::Yes => spec.dtype == T::WORD,
                // The sizes of elements are powers of two; a remainder costs as much as all other checks.
                Typed::No => {
                    let partial = spec.dtype.size() as u64 - 1;
                    (handle.start() | handle.size()) & partial == 0
                }
            };
        if !fits {
            let of = (self.kernel, self.device);
            return Err(mismatch(of, spec, handle, access, typed));
        }
        self.writes |= access.writes();
        // By value, so that the binding stays in registers.
        if self.writes
            && conflicts(self.packed, self.extra, &binding)
            && let Some((earlier, bytes)) = conflicting(
                self.packed,
                self.extra,
                self.kernel.kernel.signature(),
                binding,
            )
        {
            return Err(overlap(self.kernel, (earlier, self.written), bytes));
        }
        if let Some(recorded) = &mut self.recorded {
            recorded.holds.push(handle.hold().clone());
        }
        // Asked before, so that a tuple of few bindings has no call here, after which the list must be read again.
        match self.written < INLINE_BINDINGS {
            true => _ = self.packed.push(binding),
            false => push_further(self.extra, binding),
        }
        self.written += 1;
        Ok(())
    }

    /// Writes the next scalar.
    ///
    /// # Errors
    /// The mismatch with the signature.
    #[inline(always)]
    pub(crate) fn scalar<T: Element>(&mut self, value: T) -> Result<(), Box<Error>> {
        let Some(spec) = self.scalars.next() else {
            return Err(surplus(self.kernel, ArgumentCount::SCALAR));
        };
        if spec.dtype != T::DTYPE {
            return Err(scalar_type(self.kernel, &spec.name, spec.dtype, T::DTYPE));
        }
        let value = bytemuck::bytes_of(&value);
        match &mut self.words {
            // Scalars do not straddle words, so a scalar that starts inline ends inline.
            Some(words) if spec.offset <= INLINE_WORDS * 8 - size_of::<T>() => {
                let bytes: &mut [u8; INLINE_WORDS * 8] = bytemuck::cast_mut(*words);
                bytes[spec.offset..][..size_of::<T>()].copy_from_slice(value);
            }
            _ => write_further(self.extra, spec.offset, value),
        }
        Ok(())
    }

    /// Writes the next scalar, of whatever type, by its bits: its bytes are the first of `bits`. For callers that know the
    /// types of their scalars at run time, and check them.
    ///
    /// # Errors
    /// If the signature declares no further scalar.
    pub fn scalar_bits(&mut self, bits: u64) -> Result<(), Box<Error>> {
        let Some(spec) = self.scalars.next() else {
            return Err(surplus(self.kernel, ArgumentCount::SCALAR));
        };
        let value = &bytemuck::bytes_of(&bits)[..spec.dtype.size()];
        match &mut self.words {
            Some(words) if spec.offset + value.len() <= INLINE_WORDS * 8 => {
                let bytes: &mut [u8; INLINE_WORDS * 8] = bytemuck::cast_mut(*words);
                bytes[spec.offset..][..value.len()].copy_from_slice(value);
            }
            _ => write_further(self.extra, spec.offset, value),
        }
        Ok(())
    }

    /// Leaves room for the next scalar, whose value each replay sets.
    ///
    /// # Errors
    /// The mismatch with the signature; if the parameter does not belong to the recorder.
    #[cold]
    pub(crate) fn scalar_parameter<T: Element>(
        &mut self,
        parameter: &ScalarParameter<T>,
    ) -> Result<(), Box<Error>> {
        match self.scalars.as_slice().first() {
            Some(spec) if spec.dtype != T::DTYPE => {
                Err(scalar_type(self.kernel, &spec.name, spec.dtype, T::DTYPE))
            }
            _ => self.scalar_parameter_bits(parameter),
        }
    }

    /// As [`Self::scalar_bits`], for a scalar whose bits each replay sets.
    ///
    /// # Errors
    /// If the signature declares no further scalar, and if the parameter does not belong to the recorder.
    #[cold]
    pub fn scalar_parameter_bits<T: Element>(
        &mut self,
        parameter: &ScalarParameter<T>,
    ) -> Result<(), Box<Error>> {
        let next = self.scalars.as_slice().first();
        self.scalar_bits(0)?;
        let scalar = parameter.index();
        let (Some(spec), Some(recorded)) = (next, &mut self.recorded) else {
            let what = "is passed to a launch outside of a recording; pass a number, or launch with the recorder";
            return Err(refused(self.kernel, scalar_parameter(scalar, what)));
        };
        if !parameter.is_of(&recorded.key) {
            let why = scalar_parameter(scalar, FOREIGN_PARAMETER);
            return Err(refused(self.kernel, why));
        }
        recorded.parameters.push(ScalarSlot {
            word: (spec.offset / size_of::<u64>()) as u32,
            byte: (spec.offset % size_of::<u64>()) as u8,
            len: spec.dtype.size() as u8,
            slot: scalar,
        });
        Ok(())
    }

    /// Writes all scalars in place: returns their words, which are zero, and which the caller sets. Each scalar is at its
    /// [offset](ScalarSpec::offset) in bytes. `None` if they are more words than a task holds without the heap, which
    /// only [`Self::words`] takes.
    #[inline]
    pub fn words_in_place(&mut self) -> Option<&mut [u64]> {
        let expected = self.kernel.kernel.signature().scalar_words();
        match &mut self.words {
            Some(words) => {
                let words = words.get_mut(..expected)?;
                self.scalars = [].iter();
                Some(words)
            }
            // Nothing to write: no words, or no scalars.
            None => (expected == 0).then_some(&mut []),
        }
    }

    /// Writes all scalars, as packed words.
    ///
    /// # Errors
    /// If the signature declares a different number of words.
    pub fn words(&mut self, given: &[u64]) -> Result<(), Box<Error>> {
        let expected = self.kernel.kernel.signature().scalar_words();
        if given.len() != expected {
            let why = ArgumentError::count("word", expected, given.len());
            return Err(refused(self.kernel, why));
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

    /// Checks that every declared argument was written.
    ///
    /// # Errors
    /// The number of arguments that were declared and written.
    #[inline(always)]
    pub(crate) fn finish(&self) -> Result<(), Box<Error>> {
        if self.bindings.len() == 0 && self.scalars.len() == 0 {
            return Ok(());
        }
        let declared = ArgumentCount::of(self.kernel.kernel.signature());
        let written = ArgumentCount {
            bindings: declared.bindings - self.bindings.len(),
            scalars: declared.scalars - self.scalars.len(),
        };
        Err(miscounted(self.kernel, written))
    }

    /// Writes the metadata.
    pub fn metadata(&mut self, metadata: &Metadata) {
        self.metadata_words(metadata.words());
    }

    /// Writes metadata that is already encoded as words.
    pub(crate) fn metadata_words(&mut self, words: Vec<u32>) {
        self.extra.get_or_insert_default().metadata = words;
    }

    /// Writes tensor maps over bindings of the launch.
    ///
    /// # Errors
    /// If a map is over a binding that is not declared.
    pub(crate) fn tensor_maps(&mut self, maps: &[TensorMap]) -> Result<(), Box<Error>> {
        let bindings = self.kernel.kernel.signature().bindings().len();
        if let Some(map) = maps.iter().find(|map| map.binding >= bindings) {
            let message = format!(
                "a tensor map refers to binding {}, but the launch has {bindings}; bindings count from 0",
                map.binding
            );
            let why = ArgumentError::new(ArgumentErrorKind::Count, message);
            return Err(refused(self.kernel, why));
        }
        self.extra.get_or_insert_default().tensor_maps = maps.to_vec();
        Ok(())
    }
}

/// Allocates words for more scalars than fit inline.
#[cold]
fn allocate_words(extra: &mut Option<Box<Extra>>, words: usize) {
    extra.get_or_insert_default().words = vec![0; words];
}

/// Writes a scalar beyond the inline words.
#[cold]
fn write_further(extra: &mut Option<Box<Extra>>, offset: usize, value: &[u8]) {
    if let Some(extra) = extra
        && let Some(room) =
            bytemuck::cast_slice_mut(&mut extra.words).get_mut(offset..offset + value.len())
    {
        room.copy_from_slice(value);
    }
}

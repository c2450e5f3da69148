//! Recording tasks, and replaying them as one message.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::access::Access;
use crate::client::{KernelHandle, Stream};
use crate::element::Element;
use crate::error::{Error, LaunchError, ParameterMisfit};
use crate::handle::{Binding, Handle, Hold};
use crate::id::RecordingId;
use crate::kernel::BindingSpec;
use crate::launch::{
    ArgumentWriter, Arguments, Bound, CubeCount, INLINE_BINDINGS, Packed, Untyped,
};
use crate::message::{LaunchCount, Op, Pattern, Registration, Task};
use crate::recording::{
    Parameter, Parameters, RecordedOp, RecordedTask, RecordedWord, WordSlot, overlapping_task,
};

/// Takes down tasks instead of submitting them.
pub struct Recorder<'a> {
    stream: &'a Stream,
    parameters: Parameters,
    tasks: Vec<Taken>,
    kernels: Vec<KernelHandle>,
    /// Holds on what was recorded, in the order of the parameters.
    holds: Vec<Hold>,
}

/// A task that was taken down.
struct Taken {
    op: RecordedOp,
    task: Task,
    /// One a binding.
    shapes: Vec<Shape>,
    slots: Box<[WordSlot]>,
}

/// What a recording must know of a binding beside the binding: its alignment, and whether it may
/// overlap others of its kind.
#[derive(Clone, Copy)]
struct Shape {
    align: u64,
    aliases: bool,
}

/// Tasks that were checked and resolved once.
///
/// A recording holds what it was recorded with. It is immutable, so that any thread may replay it
/// on any stream of its device, several at a time: hazards order replays that share what they write.
#[derive(Clone)]
pub struct Recording {
    shared: Arc<RecordingShared>,
}

struct RecordingShared {
    hold: Hold,
    parameters: Vec<Parameter>,
    /// Their bindings as they were recorded: what a replay begins with.
    bindings: Box<[Binding]>,
    tasks: Arc<[RecordedTask]>,
    /// How many words a replay gives.
    words: usize,
    /// Keeps the recorded slices and kernels alive.
    _holds: Vec<Hold>,
    _kernels: Vec<KernelHandle>,
}

impl Stream {
    /// Takes down what `record` does with the recorder. Nothing runs.
    ///
    /// May wait for room in the mailbox.
    ///
    /// # Errors
    /// What `record` returns; [`Error::Closed`].
    pub fn record(
        &self,
        record: impl FnOnce(&mut Recorder<'_>) -> Result<(), Error>,
    ) -> Result<Recording, Error> {
        let mut recorder = Recorder {
            stream: self,
            parameters: Parameters::default(),
            tasks: Vec::new(),
            kernels: Vec::new(),
            holds: Vec::new(),
        };
        record(&mut recorder)?;
        recorder.finish()
    }
}

impl Recorder<'_> {
    /// Takes down a launch.
    ///
    /// # Errors
    /// As [`Stream::launch`].
    pub fn launch(
        &mut self,
        kernel: &KernelHandle,
        count: CubeCount,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        self.take_launch(kernel, count, &arguments, Box::default())
    }

    /// Takes down a launch as [`Stream::launch_words`] makes it. Words may be slots: then each replay gives their values
    /// ([`Recording::replay_args`]).
    ///
    /// ```
    /// # use millstream_core::{client::{KernelHandle, Recording, Stream}, error::Error, handle::Handle};
    /// use millstream_core::launch::{CubeCount, read, write};
    /// use millstream_core::recording::RecordedWord;
    /// # fn f(stream: &Stream, scale: &KernelHandle, x: &Handle<f32>, y: &Handle<f32>) -> Result<(), Error> {
    /// let step = stream.record(|recorder| {
    ///     let (a, b) = (recorder.parameter::<f32>(64)?, recorder.parameter::<f32>(64)?);
    ///     let words = [RecordedWord::Value(64), RecordedWord::Slot(0)];
    ///     let bindings = [read(a.as_bytes()), write(b.as_bytes())];
    ///     recorder.launch_words(scale, CubeCount::single(), &bindings, &words)
    /// })?;
    /// let factor = u64::from(0.5_f32.to_bits());
    /// step.replay_args(stream, &[(0, x.as_bytes()), (1, y.as_bytes())], &[factor])
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Stream::launch_words`].
    pub fn launch_words(
        &mut self,
        kernel: &KernelHandle,
        count: CubeCount,
        bindings: &[Bound<'_, u8>],
        words: &[RecordedWord],
    ) -> Result<(), Error> {
        let values = words.iter().map(|word| match word {
            RecordedWord::Value(value) => *value,
            RecordedWord::Slot(_) => 0,
        });
        let values: Vec<u64> = values.collect();
        let slot = |(index, word): (usize, &RecordedWord)| match word {
            RecordedWord::Value(_) => None,
            RecordedWord::Slot(slot) => Some(WordSlot {
                word: index as u32,
                slot: *slot,
            }),
        };
        let slots = words.iter().enumerate().filter_map(slot).collect();
        let arguments = Untyped {
            signature: kernel.kernel.signature(),
            bindings,
            words: &values,
            metadata: &[],
        };
        self.take_launch(kernel, count, &arguments, slots)
    }

    fn take_launch(
        &mut self,
        kernel: &KernelHandle,
        count: CubeCount,
        arguments: &impl Arguments,
        slots: Box<[WordSlot]>,
    ) -> Result<(), Error> {
        let device = self.stream.device();
        if !Arc::ptr_eq(kernel.hold.table(), device.table()) {
            return Err(device.foreign("kernel", kernel.hold.table()));
        }
        let signature = kernel.kernel.signature();
        let mut packed = Packed::new();
        let given = arguments.count();
        let fits = ArgumentWriter::new(signature, device.table(), &mut packed, given)
            .and_then(|writer| arguments.write(&mut writer.keeping(&mut self.holds)));
        fits.map_err(|error| error.of(kernel.name(), device))?;
        self.stream.check_count(kernel, &count)?;
        let mut task = Task::new(None, Op::Taken);
        packed.move_to(&mut task);
        let count = match &count {
            CubeCount::Static(x, y, z) => LaunchCount::Static([*x, *y, *z]),
            CubeCount::Dynamic(handle) => {
                task.push_binding(handle.binding(Access::Read));
                self.holds.push(handle.hold().clone());
                LaunchCount::Dynamic
            }
        };
        self.kernels.push(kernel.clone());
        let shape = |spec: &BindingSpec| Shape {
            align: spec.dtype.size() as u64,
            aliases: signature.aliases() && spec.share.is_shared_by_pointer(),
        };
        let shapes = signature.bindings().iter().map(shape).collect();
        let op = RecordedOp::Launch {
            kernel: kernel.id(),
            count,
        };
        self.take_down(op, task, shapes, slots);
        Ok(())
    }

    /// Takes down a copy.
    ///
    /// # Errors
    /// As [`Stream::copy`].
    pub fn copy<T: Element>(
        &mut self,
        source: &Handle<T>,
        target: &Handle<T>,
    ) -> Result<(), Error> {
        let (from, to) = self.stream.check_copy(source, target)?;
        self.holds
            .extend([source.hold().clone(), target.hold().clone()]);
        let mut task = Task::new(None, Op::Taken);
        task.push_binding(from);
        task.push_binding(to);
        self.take_down(RecordedOp::Copy, task, Vec::new(), Box::default());
        Ok(())
    }

    /// Takes down a fill.
    ///
    /// # Errors
    /// As [`Stream::fill`].
    pub fn fill<T: Element>(&mut self, target: &Handle<T>, value: T) -> Result<(), Error> {
        self.stream.own(target)?;
        self.holds.push(target.hold().clone());
        let mut task = Task::new(None, Op::Taken);
        task.push_binding(target.binding(Access::Write));
        let op = RecordedOp::Fill(Pattern::of(value));
        self.take_down(op, task, Vec::new(), Box::default());
        Ok(())
    }

    /// Memory that belongs to the recording: a temporary of its own. Replays that use it at the same
    /// time are ordered.
    ///
    /// # Errors
    /// As [`Stream::empty`].
    pub fn empty<T: Element>(&mut self, len: usize) -> Result<Handle<T>, Error> {
        let handle = self.stream.empty(len)?;
        self.holds.push(handle.hold().clone());
        Ok(handle)
    }

    /// A parameter: `len` elements that each replay binds, without memory of their own. It takes a slot of the device's
    /// table. A replay must bind it ([`Recording::replay_args`], under the index of [`Recording::parameter_of`]) to
    /// a handle of at least as many bytes; what the handle has beyond them is not touched.
    ///
    /// It is for recordings only: a task outside of one that is given it does not run, and whoever reads what that would
    /// have written is told so ([`Reason::Parameter`](crate::failure::Reason::Parameter)). May wait for room in the
    /// mailbox.
    ///
    /// # Errors
    /// [`LaunchError::SizeOverflow`], [`Error::Closed`].
    pub fn parameter<T: Element>(&mut self, len: usize) -> Result<Handle<T>, Error> {
        let (elements, element_bytes) = (len as u64, size_of::<T>() as u64);
        let Some(bytes) = elements.checked_mul(element_bytes) else {
            let why = LaunchError::SizeOverflow {
                elements,
                element_bytes,
            };
            let task = "parameter".into();
            return Err(Error::Launch { task, why });
        };
        let handle = Handle::whole(self.stream.formal(bytes)?, bytes);
        self.parameters.formal.push(handle.id());
        Ok(handle)
    }

    /// As [`Recorder::parameter`], for memory whose contents no replay needs: temporaries, and results that are written part by
    /// part. A replay defines what it reads there, so a failure of an earlier one that lies in the memory is not inherited.
    ///
    /// # Errors
    /// As [`Recorder::parameter`].
    pub fn scratch<T: Element>(&mut self, len: usize) -> Result<Handle<T>, Error> {
        let handle = self.parameter(len)?;
        self.parameters.scratch.push(handle.id());
        Ok(handle)
    }

    /// Bindings without a shape (copies, counts) need the alignment of a count and overlap nothing.
    fn take_down(
        &mut self,
        op: RecordedOp,
        task: Task,
        mut shapes: Vec<Shape>,
        slots: Box<[WordSlot]>,
    ) {
        let align = if matches!(op, RecordedOp::Launch { .. }) {
            size_of::<u32>() as u64
        } else {
            1
        };
        shapes.resize(
            task.all_bindings().count(),
            Shape {
                align,
                aliases: false,
            },
        );
        for (binding, shape) in task.all_bindings().zip(&shapes) {
            self.parameters.add(binding, shape.align);
        }
        self.tasks.push(Taken {
            op,
            task,
            shapes,
            slots,
        });
    }

    fn finish(mut self) -> Result<Recording, Error> {
        let parameters = self.parameters.finished();
        let tasks: Arc<[RecordedTask]> = self
            .tasks
            .drain(..)
            .map(|taken| recorded(&self.parameters, taken))
            .collect();
        let slots = tasks.iter().flat_map(|task| &task.slots);
        let words = slots.map(|slot| slot.slot as usize + 1).max().unwrap_or(0);
        let device = self.stream.device();
        let hold = device.slot()?;
        let id = RecordingId(hold.id());
        device.register(Registration::Recording {
            id,
            tasks: tasks.clone(),
        })?;
        let shared = RecordingShared {
            hold,
            bindings: parameters.iter().map(|known| known.binding).collect(),
            parameters,
            tasks,
            words,
            _holds: self.holds,
            _kernels: self.kernels,
        };
        Ok(Recording {
            shared: Arc::new(shared),
        })
    }
}

fn recorded(parameters: &Parameters, taken: Taken) -> RecordedTask {
    let bindings = taken.task.all_bindings().zip(&taken.shapes);
    let more = taken.task.extra.more();
    RecordedTask {
        op: taken.op,
        bindings: bindings
            .map(|(binding, shape)| parameters.relative(binding, shape.aliases))
            .collect(),
        scalars: taken.task.scalars().into(),
        slots: taken.slots,
        metadata: more.map(|extra| extra.metadata.clone()).unwrap_or_default(),
        tensor_maps: more
            .map(|extra| extra.tensor_maps.clone())
            .unwrap_or_default(),
    }
}

impl Recording {
    /// How many parameters it has: the slices that it touches, in order of first use.
    pub fn parameters(&self) -> usize {
        self.shared.parameters.len()
    }

    /// The index of the parameter that is this handle's slice, if a task of the recording touches it.
    pub fn parameter_of<T: Element>(&self, handle: &Handle<T>) -> Option<usize> {
        let is_it = |parameter: &Parameter| parameter.binding.slice == handle.id();
        self.shared.parameters.iter().position(is_it)
    }

    /// How many words a replay gives: one more than the greatest slot, or none.
    pub fn words(&self) -> usize {
        self.shared.words
    }

    /// How many tasks it has.
    pub fn len(&self) -> usize {
        self.shared.tasks.len()
    }

    /// Has it no tasks?
    pub fn is_empty(&self) -> bool {
        self.shared.tasks.is_empty()
    }

    /// Runs the recording on `stream`, with what it was recorded with. One message; may wait for room in
    /// the mailbox.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Closed`]; [`Error::Launch`] for a recording that has parameters without memory, or
    /// slots: those take [`Recording::replay_args`].
    pub fn replay(&self, stream: &Stream) -> Result<(), Error> {
        self.replay_args(stream, &[], &[])
    }

    /// Runs the recording with other handles in place of some parameters: `(index, handle)`. May wait for
    /// room in the mailbox. A handle needs at least the bytes that the recording touches of its parameter,
    /// aligned as those were; it keeps its own start.
    ///
    /// # Errors
    /// [`Error::Launch`] with [`LaunchError::Parameter`] when an index does not exist, a handle is too small
    /// or aligned otherwise, or the handles overlap so that a task would read what it writes where no kernel
    /// allows that.
    pub fn replay_with<T: Element>(
        &self,
        stream: &Stream,
        rebound: &[(usize, &Handle<T>)],
    ) -> Result<(), Error> {
        let rebound = rebound
            .iter()
            .map(|(index, handle)| (*index, handle.as_bytes()));
        self.submit(stream, stream.waits(), rebound, &[])
    }

    /// Runs the recording with handles of any elements ([`Handle::as_bytes`]) in place of parameters, as
    /// [`Recording::replay_with`], and with the values of all slots. Every parameter that was made by
    /// [`Recorder::parameter`] must be bound. One message, which takes no heap for up to 8 parameters and 16 words;
    /// may wait for room in the mailbox.
    ///
    /// # Errors
    /// As [`Recording::replay_with`]; [`LaunchError::Parameter`] where one that has no memory is left out,
    /// [`LaunchError::WordCount`].
    pub fn replay_args(
        &self,
        stream: &Stream,
        rebound: &[(usize, &Handle<u8>)],
        words: &[u64],
    ) -> Result<(), Error> {
        self.submit(stream, stream.waits(), rebound.iter().copied(), words)
    }

    /// As [`Recording::replay_args`], but never waits.
    ///
    /// # Errors
    /// Also [`Error::Busy`] when there is no room; nothing was submitted then.
    pub fn try_replay_args(
        &self,
        stream: &Stream,
        rebound: &[(usize, &Handle<u8>)],
        words: &[u64],
    ) -> Result<(), Error> {
        self.submit(stream, false, rebound.iter().copied(), words)
    }

    fn submit<'h>(
        &self,
        stream: &Stream,
        wait: bool,
        rebound: impl ExactSizeIterator<Item = (usize, &'h Handle<u8>)>,
        words: &[u64],
    ) -> Result<(), Error> {
        let shared = &*self.shared;
        let table = shared.hold.table();
        if !Arc::ptr_eq(table, stream.device().table()) {
            return Err(stream.device().foreign("recording", table));
        }
        if words.len() != shared.words {
            let (expected, given) = (shared.words, words.len());
            return Err(refused(LaunchError::WordCount { expected, given }));
        }
        // As many as a message has room for.
        let mut parameters: SmallVec<[Binding; INLINE_BINDINGS]> =
            SmallVec::from_slice(&shared.bindings);
        let rebinds = rebound.len() > 0;
        for (index, handle) in rebound {
            stream.own(handle)?;
            let (Some(recorded), Some(place)) =
                (shared.parameters.get(index), parameters.get_mut(index))
            else {
                let parameters = self.parameters();
                return Err(misfit(index, ParameterMisfit::Missing { parameters }));
            };
            *place = rebind(index, recorded, handle)?;
        }
        let unbound = |(recorded, bound): (&Parameter, &Binding)| {
            recorded.is_formal && recorded.binding.slice == bound.slice
        };
        if let Some(index) = shared.parameters.iter().zip(&parameters).position(unbound) {
            return Err(misfit(index, ParameterMisfit::Unbound));
        }
        // Recorded parameters never overlap. Rebound ones may: then each task is looked at again.
        if rebinds
            && aliased(&parameters)
            && let Some(overlap) = overlapping_task(&shared.tasks, &parameters)
        {
            let (other, task) = (overlap.first, overlap.task);
            let overlaps = ParameterMisfit::Overlap { other, task };
            return Err(misfit(overlap.second, overlaps));
        }
        let op = Op::Replay(RecordingId(shared.hold.id()));
        stream.submit(wait, op, |task| {
            task.set_bindings(&parameters);
            task.set_scalars(words);
        })
    }
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recording({} tasks)", self.len())
    }
}

/// The binding of a handle that takes the place of a parameter.
#[inline]
fn rebind(index: usize, recorded: &Parameter, handle: &Handle<u8>) -> Result<Binding, Error> {
    let (touched, base) = (&recorded.binding, recorded.base());
    let needed = touched.offset - base + touched.len;
    if handle.size() < needed {
        let (recorded, given) = (needed, handle.size());
        return Err(misfit(index, ParameterMisfit::TooSmall { recorded, given }));
    }
    let (align, given) = (recorded.align, handle.start());
    // Alignments are sizes of elements, which are powers of two.
    if (given ^ base) & (align - 1) != 0 {
        let recorded = base;
        let misaligned = ParameterMisfit::Misaligned {
            align,
            recorded,
            given,
        };
        return Err(misfit(index, misaligned));
    }
    let offset = given + (touched.offset - base);
    Ok(Binding::new(
        handle.id(),
        offset,
        touched.len,
        touched.access,
    ))
}

/// Do two of them overlap?
#[inline]
fn aliased(parameters: &[Binding]) -> bool {
    parameters.iter().enumerate().any(|(index, first)| {
        let others = &parameters[index + 1..];
        others.iter().any(|second| first.overlaps(second))
    })
}

#[cold]
fn misfit(index: usize, misfit: ParameterMisfit) -> Error {
    refused(LaunchError::Parameter { index, misfit })
}

#[cold]
fn refused(why: LaunchError) -> Error {
    let task = "replay".into();
    Error::Launch { task, why }
}

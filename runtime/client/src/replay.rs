//! [`Recording`], and its replay as one message.

use std::sync::Arc;

use millstream_protocol::binding::Binding;
use millstream_protocol::element::Element;
use millstream_protocol::error::{Error, LaunchError, ParameterMismatch};
use millstream_protocol::id::{RecordingId, SliceId};
use millstream_protocol::launch::INLINE_BINDINGS;
use millstream_protocol::message::Op;
use millstream_protocol::recording::{Parameter, RecordedTask, overlapping_task};
use millstream_protocol::table::SlotRef;
use smallvec::SmallVec;

use crate::arguments::ArgumentError;
use crate::handle::Handle;
use crate::{KernelHandle, Stream};

/// Tasks that were checked and resolved once, and can be replayed any number of times.
///
/// A recording keeps a reference to everything it was recorded with. It is immutable, so any thread may replay it
/// on any stream of its device, several times concurrently: hazards order replays that share memory which they write.
#[derive(Clone)]
pub struct Recording {
    shared: Arc<RecordingShared>,
}

struct RecordingShared {
    hold: SlotRef,
    parameters: Vec<Parameter>,
    /// The parameters' bindings as they were recorded: the initial bindings of a replay.
    bindings: Box<[Binding]>,
    tasks: Arc<[RecordedTask]>,
    /// The number of words that a replay provides.
    words: usize,
    /// Keeps the recorded slices and kernels alive.
    _holds: Vec<SlotRef>,
    _kernels: Vec<KernelHandle>,
}

impl Recording {
    /// Creates a recording that is registered under `hold`; `holds` and `kernels` are the references that it keeps.
    pub(super) fn new(
        hold: SlotRef,
        parameters: Vec<Parameter>,
        tasks: Arc<[RecordedTask]>,
        holds: Vec<SlotRef>,
        kernels: Vec<KernelHandle>,
    ) -> Self {
        let slots = tasks.iter().flat_map(|task| &task.slots);
        let words = slots.map(|slot| slot.slot as usize + 1).max().unwrap_or(0);
        let shared = RecordingShared {
            hold,
            bindings: parameters.iter().map(|known| known.binding).collect(),
            parameters,
            tasks,
            words,
            _holds: holds,
            _kernels: kernels,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Returns the number of parameters: the slices that the recording touches, in order of first use.
    pub fn parameters(&self) -> usize {
        self.shared.parameters.len()
    }

    /// Returns the index of the parameter that is this handle's slice, if a recorded task touches it.
    pub fn parameter_of<T: Element>(&self, handle: &Handle<T>) -> Option<usize> {
        self.shared.parameter_of(handle.id())
    }

    /// Returns the number of words that a replay provides: one more than the greatest slot, or 0.
    pub fn words(&self) -> usize {
        self.shared.words
    }

    /// Returns the number of tasks.
    pub fn len(&self) -> usize {
        self.shared.tasks.len()
    }

    /// Returns `true` if the recording has no tasks.
    pub fn is_empty(&self) -> bool {
        self.shared.tasks.is_empty()
    }

    /// Replays the recording on `stream` with the memory it was recorded with. Sends one message. May block while the
    /// mailbox is full.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Closed`]; [`Error::Launch`] if the recording has parameters without memory, or
    /// slots: use [`Recording::bind`] then.
    pub fn replay(&self, stream: &Stream) -> Result<(), Error> {
        ReplayArgs::new(self).replay(stream)
    }

    /// Starts the arguments of a replay by binding `handle` in place of `parameter`, byte for byte. The parameter is a
    /// handle that [`Recorder::parameter`](super::Recorder::parameter) returned, or any handle that a task was recorded
    /// with. The handle must have at least the bytes that the recording touches of the parameter, with the same
    /// alignment; it keeps its own start.
    ///
    /// ```
    /// # use millstream_client::{KernelHandle, Stream};
    /// # use millstream_protocol::error::Error;
    /// # use millstream_client::handle::Handle;
    /// use millstream_client::arguments::{CubeCount, read, write};
    /// # fn f(stream: &Stream, blur: &KernelHandle, photo: &Handle<f32>, blurred: &Handle<f32>) -> Result<(), Error> {
    /// let mut recorder = stream.recorder();
    /// let (source, target) = (recorder.parameter::<f32>(photo.len())?, recorder.parameter::<f32>(photo.len())?);
    /// recorder.launch(blur, CubeCount::single(), (read(&source), write(&target)))?;
    /// let step = recorder.finish()?;
    /// step.bind(&source, photo).bind(&target, blurred).replay(stream)
    /// # }
    /// ```
    ///
    /// [`ReplayArgs::replay`] returns an error if the handle does not fit.
    #[inline]
    pub fn bind<'a, T: Element>(
        &'a self,
        parameter: &Handle<T>,
        handle: &'a Handle<T>,
    ) -> ReplayArgs<'a> {
        ReplayArgs::new(self).bind(parameter, handle)
    }

    /// As [`Recording::replay_args`], for handles of one element type and without words. May block while the mailbox is
    /// full.
    ///
    /// # Errors
    /// Same as [`Recording::replay_args`].
    pub fn replay_with<T: Element>(
        &self,
        stream: &Stream,
        rebound: &[(usize, &Handle<T>)],
    ) -> Result<(), Error> {
        let rebound = rebound
            .iter()
            .map(|&(index, handle)| (index, handle.as_bytes()));
        self.args(rebound).replay(stream)
    }

    /// Replays the recording with handles in place of parameters that are given by index ([`Recording::parameter_of`]),
    /// and with the values of all slots. For programs that generate recordings; other programs name the parameters:
    /// [`Recording::bind`]. A handle starts where its parameter does; for a parameter with memory of its own, where the
    /// first byte is that the recording touches. May block while the mailbox is full.
    ///
    /// # Errors
    /// Same as [`ReplayArgs::replay`].
    pub fn replay_args(
        &self,
        stream: &Stream,
        rebound: &[(usize, &Handle<u8>)],
        words: &[u64],
    ) -> Result<(), Error> {
        let args = self.args(rebound.iter().copied()).words(words);
        args.replay(stream)
    }

    /// As [`Recording::replay_args`], but never blocks.
    ///
    /// # Errors
    /// Also [`Error::Busy`] if there is no room; nothing is submitted then.
    pub fn try_replay_args(
        &self,
        stream: &Stream,
        rebound: &[(usize, &Handle<u8>)],
        words: &[u64],
    ) -> Result<(), Error> {
        let args = self.args(rebound.iter().copied()).words(words);
        args.submit(stream, false)
    }

    fn args<'a>(
        &'a self,
        rebound: impl Iterator<Item = (usize, &'a Handle<u8>)>,
    ) -> ReplayArgs<'a> {
        let mut args = ReplayArgs::new(self);
        for (index, handle) in rebound {
            let bound = args.bind_index(index, handle);
            args.keep_error(bound);
        }
        args
    }
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recording({} tasks)", self.len())
    }
}

/// The arguments of one replay: a handle for each parameter, and the words. [`Recording::bind`] starts them.
///
/// The arguments are checked and resolved on the caller's stack, and allocate nothing for up to 8 parameters and 16
/// words (I9). [`ReplayArgs::replay`] returns an error if an argument does not fit.
///
/// They borrow the handles until the replay (I4): a binding is plain numbers, so a slice whose last handle was dropped
/// before the replay is sent would be freed before the replay is admitted.
///
/// ```compile_fail,E0505
/// # use millstream_client::{Recording, Stream};
/// # use millstream_protocol::error::Error;
/// # use millstream_client::handle::Handle;
/// # fn f(stream: &Stream, step: &Recording, parameter: &Handle<f32>, values: Handle<f32>) -> Result<(), Error> {
/// let args = step.bind(parameter, &values);
/// drop(values); // allowed after `replay`
/// args.replay(stream)
/// # }
/// ```
#[must_use = "nothing runs before `replay`"]
pub struct ReplayArgs<'a> {
    recording: &'a RecordingShared,
    /// One for each parameter: the recorded binding, until a handle is bound.
    bindings: SmallVec<[Binding; INLINE_BINDINGS]>,
    is_bound: SmallVec<[bool; INLINE_BINDINGS]>,
    words: &'a [u64],
    /// The first error.
    error: Option<ArgumentError>,
}

impl<'a> ReplayArgs<'a> {
    /// Creates the arguments of a replay with the recorded memory, for use in a loop.
    ///
    /// ```
    /// # use millstream_client::{Recording, ReplayArgs, Stream};
    /// # use millstream_protocol::error::Error;
    /// # use millstream_client::handle::Handle;
    /// # fn f(stream: &Stream, step: &Recording, parameters: &[Handle<f32>], values: &[Handle<f32>]) -> Result<(), Error> {
    /// let mut args = ReplayArgs::new(step);
    /// for (parameter, value) in parameters.iter().zip(values) {
    ///     args = args.bind(parameter, value);
    /// }
    /// args.replay(stream)
    /// # }
    /// ```
    #[inline]
    pub fn new(recording: &'a Recording) -> Self {
        let recording = &*recording.shared;
        Self {
            recording,
            bindings: SmallVec::from_slice(&recording.bindings),
            is_bound: SmallVec::from_elem(false, recording.bindings.len()),
            words: &[],
            error: None,
        }
    }

    /// Binds `handle` in place of `parameter`, as [`Recording::bind`].
    #[inline]
    pub fn bind<T: Element>(mut self, parameter: &Handle<T>, handle: &'a Handle<T>) -> Self {
        let bound = self.bind_named(parameter.as_bytes(), handle.as_bytes());
        self.keep_error(bound);
        self
    }

    /// Sets the values of all slots ([`RecordedWord::Slot`](millstream_protocol::recording::RecordedWord)).
    #[inline]
    pub fn words(mut self, words: &'a [u64]) -> Self {
        self.words = words;
        self
    }

    /// Replays the recording on `stream`. Sends one message. May block while the mailbox is full, unless the stream is
    /// a [`Stream::nowait`].
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Closed`]; [`Error::Launch`] with [`LaunchError::NotAParameter`] for a handle that
    /// the recording does not touch, with [`LaunchError::WordCount`], and with [`LaunchError::Parameter`] if a
    /// parameter is bound twice, or has no memory and is not bound, if a handle is too small or differs in alignment,
    /// or if handles overlap so that a task would read what it writes although its kernel does not allow that.
    pub fn replay(self, stream: &Stream) -> Result<(), Error> {
        self.submit(stream, stream.waits())
    }

    #[inline]
    fn keep_error(&mut self, bound: Result<(), ArgumentError>) {
        if let Err(error) = bound {
            self.error.get_or_insert(error);
        }
    }

    fn bind_named(
        &mut self,
        parameter: &Handle<u8>,
        handle: &'a Handle<u8>,
    ) -> Result<(), ArgumentError> {
        self.check_handle(parameter)?;
        let Some(index) = self.recording.parameter_of(parameter.id()) else {
            return Err(LaunchError::NotAParameter.into());
        };
        let touched = &self.recording.bindings[index];
        let end = parameter.start() + parameter.size();
        if touched.offset < parameter.start() || touched.offset + touched.len > end {
            return Err(parameter_error(index, ParameterMismatch::Part));
        }
        self.bind_at(index, parameter.start(), handle)
    }

    fn bind_index(&mut self, index: usize, handle: &'a Handle<u8>) -> Result<(), ArgumentError> {
        let Some(recorded) = self.recording.parameters.get(index) else {
            let parameters = self.recording.parameters.len();
            return Err(parameter_error(
                index,
                ParameterMismatch::Missing { parameters },
            ));
        };
        self.bind_at(index, recorded.base(), handle)
    }

    /// Binds a handle that starts where byte `base` of the recorded slice was.
    fn bind_at(
        &mut self,
        index: usize,
        base: u64,
        handle: &'a Handle<u8>,
    ) -> Result<(), ArgumentError> {
        self.check_handle(handle)?;
        if std::mem::replace(&mut self.is_bound[index], true) {
            return Err(parameter_error(index, ParameterMismatch::Twice));
        }
        let bound = rebind(&self.recording.parameters[index], base, handle);
        self.bindings[index] = bound.map_err(|why| parameter_error(index, why))?;
        Ok(())
    }

    fn check_handle(&self, handle: &Handle<u8>) -> Result<(), ArgumentError> {
        match Arc::ptr_eq(handle.hold().table(), self.recording.hold.table()) {
            true => Ok(()),
            false => Err(ArgumentError::foreign(handle, None)),
        }
    }

    fn submit(self, stream: &Stream, wait: bool) -> Result<(), Error> {
        let (shared, device) = (self.recording, stream.device());
        let table = shared.hold.table();
        if !Arc::ptr_eq(table, device.table()) {
            return Err(device.foreign("recording", shared.hold.id().index.to_string(), table));
        }
        let overlap = match self.error {
            Some(error) => Err(error),
            None => shared.check(&self.bindings, self.is_bound.contains(&true), self.words),
        };
        let overlap = overlap.map_err(|error| device.argument_error(error, &"replay".into()))?;
        let op = Op::Replay {
            recording: RecordingId(shared.hold.id()),
            overlap,
        };
        stream.submit(wait, op, |task| {
            task.set_bindings(&self.bindings);
            task.set_scalars(self.words);
        })
    }
}

impl RecordingShared {
    fn parameter_of(&self, slice: SliceId) -> Option<usize> {
        self.bindings.iter().position(|known| known.slice == slice)
    }

    /// Checks all arguments of a replay together. Returns `true` if two parameters overlap, one of which is written.
    fn check(
        &self,
        bindings: &[Binding],
        rebinds: bool,
        words: &[u64],
    ) -> Result<bool, ArgumentError> {
        if words.len() != self.words {
            let (expected, given) = (self.words, words.len());
            return Err(LaunchError::WordCount { expected, given }.into());
        }
        let unbound = |(recorded, bound): (&Parameter, &Binding)| {
            recorded.is_formal && recorded.binding.slice == bound.slice
        };
        if let Some(index) = self.parameters.iter().zip(bindings).position(unbound) {
            return Err(parameter_error(index, ParameterMismatch::Unbound));
        }
        // Recorded parameters never overlap. Rebound ones may, so then each task is checked again.
        let overlap = rebinds && overlap(bindings);
        if overlap && let Some(overlap) = overlapping_task(&self.tasks, bindings) {
            let (other, task) = (overlap.first, overlap.task);
            let overlaps = ParameterMismatch::Overlap { other, task };
            return Err(parameter_error(overlap.second, overlaps));
        }
        Ok(overlap)
    }
}

/// Returns the binding of a handle that replaces a parameter from byte `base` on.
#[inline]
fn rebind(
    recorded: &Parameter,
    base: u64,
    handle: &Handle<u8>,
) -> Result<Binding, ParameterMismatch> {
    let touched = &recorded.binding;
    let before = touched.offset - base;
    let needed = before + touched.len;
    if handle.size() < needed && !recorded.may_be_shorter {
        let (recorded, given) = (needed, handle.size());
        return Err(ParameterMismatch::TooSmall { recorded, given });
    }
    let (align, given) = (recorded.align, handle.start());
    // Alignments are sizes of elements, and so powers of two.
    if (given ^ base) & (align - 1) != 0 {
        return Err(ParameterMismatch::Misaligned {
            align,
            recorded: base,
            given,
        });
    }
    let before = before.min(handle.size());
    let len = touched.len.min(handle.size() - before);
    Ok(Binding::new(
        handle.id(),
        given + before,
        len,
        touched.access,
    ))
}

/// Returns `true` if two of the bindings overlap and one of the two is written.
#[inline]
fn overlap(parameters: &[Binding]) -> bool {
    parameters.iter().enumerate().any(|(index, first)| {
        let others = &parameters[index + 1..];
        others.iter().any(|second| first.conflicts(second))
    })
}

#[cold]
fn parameter_error(index: usize, misfit: ParameterMismatch) -> ArgumentError {
    LaunchError::Parameter { index, misfit }.into()
}

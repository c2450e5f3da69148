//! [`ReplayArgs`]: the arguments of one replay.

use std::sync::Arc;

use millstream_protocol::{
    ArgumentError, ArgumentErrorKind, Binding, Element, Error, INLINE_BINDINGS, Op, RecordingId,
    Stored, recording::Parameter,
};
use smallvec::SmallVec;

use super::{Recording, RecordingShared, misused, parameter_error, refused};
use crate::arguments::ScalarParameter;
use crate::handle::Handle;
use crate::scalar_values::ScalarValues;
use crate::{DeviceShared, Stream};

/// The arguments of one replay: a handle for each parameter, a value for each scalar parameter, and the words.
/// [`Recording::bind`] and [`Recording::set`] start them.
///
/// The arguments are checked and resolved on the caller's stack, and allocate nothing for up to 8 parameters, 16 scalar
/// parameters and 16 words (I9). [`ReplayArgs::replay`] returns an error if an argument does not fit.
///
/// They borrow the handles until the replay (I4): a binding is plain numbers, so a slice whose last handle was dropped
/// before the replay is sent would be freed before the replay is admitted.
///
/// ```compile_fail,E0505
/// # use millstream_client::{Recording, Stream};
/// # use millstream_protocol::Error;
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
    scalars: ScalarValues,
    /// The first error.
    error: Option<Box<Error>>,
}

impl<'a> ReplayArgs<'a> {
    /// Creates the arguments of a replay with the recorded memory, for use in a loop.
    ///
    /// ```
    /// # use millstream_client::{Recording, ReplayArgs, Stream};
    /// # use millstream_protocol::Error;
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
            scalars: ScalarValues::new(&recording.words.scalars),
            error: None,
        }
    }

    /// Binds `handle` in place of `parameter`, as [`Recording::bind`].
    #[inline]
    pub fn bind<T: Stored>(mut self, parameter: &Handle<T>, handle: &'a Handle<T>) -> Self {
        let bound = self.bind_named(parameter.as_bytes(), handle.as_bytes());
        self.keep_error(bound);
        self
    }

    /// Sets the value of a scalar parameter, as [`Recording::set`].
    #[inline]
    pub fn set<T: Element>(mut self, scalar: &ScalarParameter<T>, value: T) -> Self {
        let known = &self.recording.words.scalars;
        let set = self.scalars.set(known, scalar, value);
        self.keep_error(set.map_err(refused));
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
    /// [`Error::Foreign`], [`Error::Closed`]; [`Error::Argument`] for a handle that the recording does not touch, a wrong
    /// number of words, if a scalar parameter is set twice, not at all, or belongs to another recording, if a
    /// parameter is bound twice, or has no memory and is not bound, if a handle is too small or differs in alignment,
    /// or if handles overlap so that a task would read what it writes although its kernel does not allow that.
    pub fn replay(self, stream: &Stream) -> Result<(), Error> {
        let (shared, device) = (self.recording, stream.device());
        let table = shared.hold.table();
        if !Arc::ptr_eq(table, device.table()) {
            return Err(device.foreign("recording", shared.hold.id().index.to_string(), table));
        }
        let overlap = match self.error {
            Some(error) => Err(error),
            None => self.check(),
        };
        let overlap = overlap.map_err(|error| *error)?;
        let op = Op::Replay {
            recording: RecordingId(shared.hold.id()),
            overlap,
        };
        stream.submit(op, |task| {
            task.set_bindings(&self.bindings);
            self.scalars.set_after(self.words, task);
        })
    }

    #[inline]
    pub(super) fn keep_error(&mut self, bound: Result<(), Box<Error>>) {
        if let Err(error) = bound {
            self.error.get_or_insert(error);
        }
    }

    fn bind_named(
        &mut self,
        parameter: &Handle<u8>,
        handle: &'a Handle<u8>,
    ) -> Result<(), Box<Error>> {
        self.check_handle(parameter)?;
        let Some(index) = self.recording.parameter_of(parameter.id()) else {
            let message = "no task of the recording accesses the handle to bind to: bind to a handle that `Recorder::parameter` returned for this recording";
            return Err(refused(ArgumentError::new(
                ArgumentErrorKind::Parameter,
                message,
            )));
        };
        let touched = &self.recording.bindings[index];
        let end = parameter.start() + parameter.size();
        if touched.offset < parameter.start() || touched.offset + touched.len > end {
            let what =
                "is bound through a view of a part of it; bind it through the recorded handle";
            return Err(misused(index, what));
        }
        self.bind_at(index, parameter.start(), handle)
    }

    pub(super) fn bind_index(
        &mut self,
        index: usize,
        handle: &'a Handle<u8>,
    ) -> Result<(), Box<Error>> {
        let Some(recorded) = self.recording.parameters.get(index) else {
            let parameters = self.recording.parameters.len();
            let what = format!("does not exist, the recording has {parameters}, counted from 0");
            return Err(misused(index, &what));
        };
        self.bind_at(index, recorded.base(), handle)
    }

    /// Binds a handle that starts where byte `base` of the recorded slice was.
    fn bind_at(
        &mut self,
        index: usize,
        base: u64,
        handle: &'a Handle<u8>,
    ) -> Result<(), Box<Error>> {
        self.check_handle(handle)?;
        if std::mem::replace(&mut self.is_bound[index], true) {
            return Err(misused(index, "is bound twice; bind one handle to it"));
        }
        self.bindings[index] = rebind(&self.recording.parameters[index], (index, base), handle)?;
        Ok(())
    }

    fn check_handle(&self, handle: &Handle<u8>) -> Result<(), Box<Error>> {
        if Arc::ptr_eq(handle.hold().table(), self.recording.hold.table()) {
            return Ok(());
        }
        let device = self.recording.device.upgrade();
        let foreign = |device: Arc<DeviceShared>| device.foreign_handle(handle, "");
        Err(Box::new(device.map_or(Error::Closed, foreign)))
    }

    /// Checks all arguments together. Returns `true` if two parameters overlap, one of which is written.
    fn check(&self) -> Result<bool, Box<Error>> {
        let shared = self.recording;
        if self.words.len() != shared.words.own {
            let (expected, given) = (shared.words.own, self.words.len());
            return Err(refused(ArgumentError::count("word", expected, given)));
        }
        let scalars = self.scalars.check(&shared.words.scalars);
        scalars.map_err(refused)?;
        shared.check(&self.bindings, self.is_bound.contains(&true))
    }
}

/// Returns the binding of a handle that replaces a parameter from byte `base` on.
#[inline]
fn rebind(
    recorded: &Parameter,
    (index, base): (usize, u64),
    handle: &Handle<u8>,
) -> Result<Binding, Box<Error>> {
    let touched = &recorded.binding;
    let before = touched.offset - base;
    let needed = before + touched.len;
    if handle.size() < needed && !recorded.may_be_shorter {
        let given = handle.size();
        let what = format!("needs a handle of at least {needed} bytes, got {given}");
        return Err(parameter_error(ArgumentErrorKind::Length, index, &what));
    }
    let (align, given) = (recorded.align, handle.start());
    // Alignments are sizes of elements, and so powers of two.
    if (given ^ base) & (align - 1) != 0 {
        let what = format!(
            "was recorded at byte {base}, the handle starts at byte {given}: both must have the same offset modulo {align} bytes"
        );
        return Err(parameter_error(ArgumentErrorKind::Alignment, index, &what));
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

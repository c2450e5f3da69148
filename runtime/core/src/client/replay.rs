//! A recording, and replaying it as one message.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::client::{KernelHandle, Stream};
use crate::element::Element;
use crate::error::{Error, LaunchError, ParameterMisfit};
use crate::handle::{Binding, Handle, Hold};
use crate::id::RecordingId;
use crate::launch::INLINE_BINDINGS;
use crate::message::Op;
use crate::recording::{Parameter, RecordedTask, overlapping_task};

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

impl Recording {
    /// `hold` is its slot, which the device knows by now; `holds` and `kernels` are what it keeps alive.
    pub(super) fn new(
        hold: Hold,
        parameters: Vec<Parameter>,
        tasks: Arc<[RecordedTask]>,
        holds: Vec<Hold>,
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
    /// [`Recorder::parameter`](super::Recorder::parameter) must be bound. One message, which takes no heap for up to 8 parameters and 16 words;
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
    let before = touched.offset - base;
    let needed = before + touched.len;
    if handle.size() < needed && !recorded.may_be_shorter {
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
    let before = before.min(handle.size());
    let len = touched.len.min(handle.size() - before);
    Ok(Binding::new(
        handle.id(),
        given + before,
        len,
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

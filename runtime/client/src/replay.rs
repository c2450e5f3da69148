//! [`Recording`], and its replay as one message.

mod args;

use std::sync::{Arc, Weak};

use millstream_protocol::recording::{Parameter, RecordedTask, overlapping_task};
use millstream_protocol::{
    ArgumentError, ArgumentErrorKind, Binding, Element, Error, SliceId, SlotRef, Stored,
};

use crate::arguments::ScalarParameter;
use crate::handle::Handle;
use crate::scalar_values::ScalarParameters;
use crate::{DeviceShared, Stream};

pub use args::ReplayArgs;

/// Tasks that were checked and resolved once, and can be replayed any number of times.
///
/// A recording keeps a reference to everything it was recorded with. It is immutable, so any thread may replay it
/// on any stream of its device, several times concurrently: hazards order replays that share memory which they write.
#[derive(Clone)]
pub struct Recording {
    shared: Arc<RecordingShared>,
}

struct RecordingShared {
    /// Only errors need it: a recording keeps no epoch alive.
    device: Weak<DeviceShared>,
    hold: SlotRef,
    parameters: Vec<Parameter>,
    /// The parameters' bindings as they were recorded: the initial bindings of a replay.
    bindings: Box<[Binding]>,
    /// The index of each slice's parameter, sorted by slice.
    by_slice: Box<[(SliceId, usize)]>,
    tasks: Arc<[RecordedTask]>,
    words: ReplayWords,
    /// References that keep the recorded slices and kernels alive.
    _holds: Vec<SlotRef>,
}

/// The words of a replay: first those that [`ReplayArgs::words`] sets, then those of scalar parameters.
pub(super) struct ReplayWords {
    /// The number of words that [`ReplayArgs::words`] sets.
    pub(super) own: usize,
    pub(super) scalars: ScalarParameters,
}

impl Recording {
    /// Creates a recording that is registered under `hold`.
    pub(super) fn new(
        (device, hold): (&Arc<DeviceShared>, SlotRef),
        parameters: Vec<Parameter>,
        tasks: Arc<[RecordedTask]>,
        words: ReplayWords,
        holds: Vec<SlotRef>,
    ) -> Self {
        let bindings: Box<[Binding]> = parameters.iter().map(|known| known.binding).collect();
        let slices = bindings.iter().map(|known| known.slice);
        let mut by_slice: Box<[_]> = slices.zip(0..).collect();
        by_slice.sort_unstable();
        let shared = RecordingShared {
            device: Arc::downgrade(device),
            hold,
            bindings,
            by_slice,
            parameters,
            tasks,
            words,
            _holds: holds,
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
    pub fn parameter_of<T: Stored>(&self, handle: &Handle<T>) -> Option<usize> {
        self.shared.parameter_of(handle.id())
    }

    /// Returns the number of words that [`ReplayArgs::words`] sets: one more than the greatest slot, or 0. Scalar
    /// parameters are not among them.
    pub fn words(&self) -> usize {
        self.shared.words.own
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
    /// [`Error::Foreign`], [`Error::Closed`]; [`Error::Argument`] if the recording has parameters without memory, or
    /// slots, or scalar parameters: use [`Recording::bind`] or [`Recording::set`] then.
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
    /// # use millstream_protocol::Error;
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
    pub fn bind<'a, T: Stored>(
        &'a self,
        parameter: &Handle<T>,
        handle: &'a Handle<T>,
    ) -> ReplayArgs<'a> {
        ReplayArgs::new(self).bind(parameter, handle)
    }

    /// Starts the arguments of a replay by setting the value of a scalar parameter, which
    /// [`Recorder::scalar`](super::Recorder::scalar) returned.
    ///
    /// [`ReplayArgs::replay`] returns an error if no launch of the recording takes the parameter.
    #[inline]
    pub fn set<T: Element>(&self, scalar: &ScalarParameter<T>, value: T) -> ReplayArgs<'_> {
        ReplayArgs::new(self).set(scalar, value)
    }

    /// As [`Recording::replay_args`], for handles of one element type and without words. May block while the mailbox is
    /// full.
    ///
    /// # Errors
    /// Same as [`Recording::replay_args`].
    pub fn replay_with<T: Stored>(
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

impl RecordingShared {
    fn parameter_of(&self, slice: SliceId) -> Option<usize> {
        let known = self
            .by_slice
            .binary_search_by_key(&slice, |(slice, _)| *slice);
        known.ok().map(|known| self.by_slice[known].1)
    }

    /// Checks all bindings of a replay together. Returns `true` if two parameters overlap, one of which is written.
    fn check(&self, bindings: &[Binding], rebinds: bool) -> Result<bool, Box<Error>> {
        let unbound = |(recorded, bound): (&Parameter, &Binding)| {
            recorded.is_formal && recorded.binding.slice == bound.slice
        };
        if let Some(index) = self.parameters.iter().zip(bindings).position(unbound) {
            return Err(misused(
                index,
                "has no memory of its own; bind a handle to it",
            ));
        }
        // Recorded parameters never overlap. Rebound ones may, so then each task is checked again.
        let overlap = rebinds && any_overlap(bindings);
        if overlap && let Some(overlap) = overlapping_task(&self.tasks, bindings) {
            let what = format!(
                "overlaps parameter {} where task {} writes one of them; copy one of them first",
                overlap.first, overlap.task
            );
            let kind = ArgumentErrorKind::Overlap;
            return Err(parameter_error(kind, overlap.second, &what));
        }
        Ok(overlap)
    }
}

/// Returns the error of a replay.
#[cold]
fn refused(why: ArgumentError) -> Box<Error> {
    Box::new(Error::Argument(why.of("replay")))
}

#[cold]
fn parameter_error(kind: ArgumentErrorKind, index: usize, what: &str) -> Box<Error> {
    let message = format!("parameter {index} of the recording {what}");
    refused(ArgumentError::new(kind, message))
}

#[cold]
fn misused(index: usize, what: &str) -> Box<Error> {
    parameter_error(ArgumentErrorKind::Parameter, index, what)
}

// Whether bindings overlap: of one replay, or of a run of a graph.

/// The number of bindings up to which each is compared with each other, which needs no heap (I9). More are sorted.
const COMPARED_MAX: usize = 64;

/// Returns `true` if two of the bindings overlap and one of the two is written.
#[inline]
pub fn any_overlap(bindings: &[Binding]) -> bool {
    if bindings.len() > COMPARED_MAX {
        return any_sorted(bindings.to_vec());
    }
    any_compared(bindings)
}

#[inline]
fn any_compared(bindings: &[Binding]) -> bool {
    bindings.iter().enumerate().any(|(index, first)| {
        let others = &bindings[index + 1..];
        others.iter().any(|second| first.conflicts(second))
    })
}

/// As [`any_overlap`], for many bindings.
fn any_sorted(mut bindings: Vec<Binding>) -> bool {
    bindings.retain(|binding| binding.len > 0);
    bindings.sort_unstable_by_key(|binding| (binding.slice, binding.offset));
    // Of one slice, the bindings so far, and those that are written, end here.
    let (mut slice, mut end, mut written_end) = (None, 0, 0);
    bindings.iter().any(|binding| {
        if slice.replace(binding.slice) != Some(binding.slice) {
            (end, written_end) = (0, 0);
        }
        let writes = binding.access.writes();
        let conflicts = binding.offset < if writes { end } else { written_end };
        let own_end = binding.offset + binding.len;
        end = end.max(own_end);
        if writes {
            written_end = written_end.max(own_end);
        }
        conflicts
    })
}

#[cfg(test)]
mod tests {
    use millstream_protocol::{Access, SliceId};
    use millstream_sync::slots::SlotId;
    use proptest::prelude::*;

    use super::*;

    fn binding() -> impl Strategy<Value = Binding> {
        let access = prop::sample::select(vec![Access::Read, Access::Write, Access::ReadWrite]);
        (0_u32..4, 0_u64..40, 0_u64..6, access).prop_map(|(index, offset, len, access)| {
            let slot = SlotId {
                index,
                generation: 0,
            };
            Binding::new(SliceId(slot), offset, len, access)
        })
    }

    proptest! {
        #[test]
        fn sorting_finds_what_comparing_all_pairs_finds(bindings in prop::collection::vec(binding(), 0..12)) {
            prop_assert_eq!(any_sorted(bindings.clone()), any_compared(&bindings));
        }
    }
}

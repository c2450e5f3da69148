//! Checks that no buffer that a run stores into overlaps another buffer of the run.
//!
//! Copies would hide a cost of an overlap that callers rarely intend. An order for each run would need a recording for
//! each way in which the buffers of a run overlap.

use smallvec::SmallVec;

use super::Run;
use crate::error::ScheduleError;

/// The owner of a buffer in a check: an input or an output, by index.
#[derive(Clone, Copy)]
enum BufferOf {
    Input(usize),
    Output(usize),
}

impl Run<'_> {
    /// Checks that a buffer that the run stores into shares no byte with another buffer of the run: a kernel could read
    /// one after another kernel stored into the other, and a replay has no hazards between tasks that name the same
    /// bytes by different parameters. One pass over all buffers, sorted by their bytes.
    pub(super) fn check_overlaps(&self) -> Result<(), ScheduleError> {
        let names = &self.compiled.names.memory.inputs;
        let inputs = self.inputs.iter().enumerate();
        let inputs =
            inputs.map(|(index, bound)| (BufferOf::Input(index), names[index].is_stored, bound));
        let outputs = self.outputs.iter().enumerate();
        let outputs = outputs.map(|(index, bound)| (BufferOf::Output(index), true, bound));
        let all = inputs.chain(outputs);
        let all = all.filter_map(|(place, is_stored, bound)| {
            let handle = bound.as_ref().filter(|handle| handle.size() > 0)?;
            let (start, slice) = (handle.start(), handle.id());
            Some((slice, start, start + handle.size(), is_stored, place))
        });
        let mut all: SmallVec<[_; 16]> = all.collect();
        all.sort_unstable_by_key(|(slice, start, ..)| (*slice, *start));
        // The buffers of this slice with the greatest end: of all, and of those that are stored into.
        let mut furthest: Option<(_, u64, BufferOf)> = None;
        let mut stored_furthest: Option<(_, u64, BufferOf)> = None;
        for (slice, start, end, is_stored, place) in all {
            let earlier = if is_stored { furthest } else { stored_furthest };
            if let Some((other_slice, other_end, other)) = earlier
                && other_slice == slice
                && other_end > start
            {
                return Err(self.overlap(place, other));
            }
            let further = |known: Option<(_, u64, BufferOf)>| match known {
                Some((known_slice, known_end, _)) if known_slice == slice && known_end >= end => {
                    known
                }
                _ => Some((slice, end, place)),
            };
            furthest = further(furthest);
            if is_stored {
                stored_furthest = further(stored_furthest);
            }
        }
        Ok(())
    }

    /// Returns the error for two buffers that overlap, at least one of which is stored into.
    #[cold]
    fn overlap(&self, one: BufferOf, other: BufferOf) -> ScheduleError {
        let names = &self.compiled.names.memory.inputs;
        match (one, other) {
            (BufferOf::Input(one), BufferOf::Input(other)) => {
                let (stored, other) = match names[one].is_stored {
                    true => (one, other),
                    false => (other, one),
                };
                // Two buffers of the graph may be of one slice, and two inputs may have one name.
                let is_alike = names[stored].name == names[other].name;
                let name = |index: usize| {
                    let name = &names[index].name;
                    match self.inputs[index].as_ref().filter(|_| is_alike) {
                        Some(handle) => {
                            let (start, end) = (handle.start(), handle.start() + handle.size());
                            format!("{name}, bytes {start}..{end} (input {index} of the schedule)")
                        }
                        None => name.to_string(),
                    }
                };
                let (stored, other) = (name(stored), name(other));
                ScheduleError::StoredInputOverlaps { stored, other }
            }
            (BufferOf::Output(output), BufferOf::Output(other)) => {
                let root = self.compiled.root_of(output.max(other));
                ScheduleError::OutputOverlaps { root }
            }
            (BufferOf::Output(output), BufferOf::Input(_))
            | (BufferOf::Input(_), BufferOf::Output(output)) => {
                let root = self.compiled.root_of(output);
                ScheduleError::OutputOverlaps { root }
            }
        }
    }
}

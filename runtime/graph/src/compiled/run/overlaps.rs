//! Checks that no buffer that a run stores into overlaps another buffer of the run.
//!
//! Copies would hide a cost of an overlap that callers rarely intend. An order for each run would need a recording for
//! each way in which the buffers of a run overlap.

use millstream_client::any_overlap;
use millstream_protocol::{Access, Binding};
use smallvec::SmallVec;

use super::Run;
use crate::error::ScheduleError;

impl Run<'_> {
    /// Checks that a buffer that the run stores into shares no byte with another buffer of the run: a kernel could read
    /// one after another kernel stored into the other, and a replay has no hazards between tasks that name the same
    /// bytes by different parameters. All externals are bound.
    pub(super) fn check_overlaps(&self) -> Result<(), ScheduleError> {
        let externals = self.compiled.steps.memory.externals.iter();
        let bound = self.bound.iter().flatten().zip(externals);
        let bindings = bound.map(|(handle, external)| match external.is_stored {
            true => handle.binding(Access::ReadWrite),
            false => handle.binding(Access::Read),
        });
        let bindings: SmallVec<[Binding; 16]> = bindings.collect();
        match any_overlap(&bindings) {
            true => Err(self.overlap(&bindings)),
            false => Ok(()),
        }
    }

    /// Returns the error for the first two externals that overlap, one of which is stored into.
    #[cold]
    fn overlap(&self, bindings: &[Binding]) -> ScheduleError {
        let externals = &self.compiled.steps.memory.externals;
        let pairs = (0..bindings.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
        let mut pairs = pairs.filter(|(one, other)| bindings[*one].conflicts(&bindings[*other]));
        let (one, other) = pairs.next().unwrap_or_default();
        let roots = [one, other].into_iter();
        let roots = roots.filter(|index| !externals[*index].is_input);
        if let Some(root) = roots.map(|output| self.root_of(output)).max() {
            return ScheduleError::OutputOverlaps { root };
        }
        let (stored, other) = match externals[one].is_stored {
            true => (one, other),
            false => (other, one),
        };
        // Two buffers of the graph may be of one slice, and two inputs may have one name.
        let is_alike = self.name(stored) == self.name(other);
        let name = |index: usize| {
            let name = self.name(index);
            match self.bound[index].as_ref().filter(|_| is_alike) {
                Some(handle) => {
                    let (start, end) = (handle.start(), handle.start() + handle.size());
                    let inputs = externals[..index].iter().filter(|other| other.is_input);
                    let input = inputs.count();
                    format!("{name}, bytes {start}..{end} (input {input} of the schedule)")
                }
                None => name,
            }
        };
        let (stored, other) = (name(stored), name(other));
        ScheduleError::StoredInputOverlaps { stored, other }
    }
}

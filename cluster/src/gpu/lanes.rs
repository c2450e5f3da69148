//! A lane for each member of a group, and the work of a call on them.

use millstream::backend::Refused;
use millstream::cuda::{CudaResources, Lane, Mark};
use smallvec::{SmallVec, smallvec};

use super::flight::{Flight, Step};
use super::{Arrived, Transfer};
use crate::part::{DeviceMemory, Part};

/// The lanes of a group's members. Each is created by the first call that needs it.
#[derive(Default)]
pub(super) struct Lanes {
    lanes: Vec<Option<Lane>>,
}

impl Lanes {
    /// Submits the work of a call.
    pub(super) fn launch(&mut self, call: Arrived) -> Flight {
        match call.transfer {
            Transfer::Spread | Transfer::Gather => self.copy(call),
        }
    }

    /// Copies by the lanes of the sources. All parts end together.
    fn copy(&mut self, mut call: Arrived) -> Flight {
        let gathers = matches!(call.transfer, Transfer::Gather);
        let sources = if gathers { call.parts.len() } else { 1 };
        let mut outcome = self.submit_copies(&call.members, &mut call.parts, sources);
        let mut marks = SmallVec::new();
        for member in &call.members[..sources] {
            // Also after a refusal: some copies may have been submitted.
            match self.mark(*member) {
                Ok(mark) => marks.extend(mark),
                Err(refused) => outcome = outcome.and(Err(refused)),
            }
        }
        let parts = call.parts.into();
        let mut flight = Flight::new(call.name, smallvec![Step { marks, parts }]);
        if let Err(refused) = outcome {
            flight.fail(refused);
        }
        flight
    }

    /// Copies from each of the first `sources` parts: to its place in all if these are all parts, else to all others.
    fn submit_copies(
        &mut self,
        members: &[usize],
        parts: &mut [Part],
        sources: usize,
    ) -> Result<(), Refused> {
        let memory = device_memory(parts)?;
        let gathers = sources == memory.len();
        for (from, member) in members.iter().enumerate().take(sources) {
            let (source, place) = (memory[from].resources, memory[from].source());
            let lane = self.lane(*member, source)?;
            let bytes = source.binding(place).map_or(0, |(_, bytes, _)| bytes);
            let offset = if gathers { from as u64 * bytes } else { 0 };
            // Each source begins with another target, so that no two copies share one.
            for step in usize::from(!gathers)..memory.len() {
                let target = &memory[(from + step) % memory.len()];
                let target = (target.resources, target.target());
                // SAFETY: the parts own both bindings until the marks of the call have completed, and no two copies of
                // a call write the same bytes.
                unsafe { lane.copy((source, place), target, offset..offset + bytes) }?;
            }
        }
        Ok(())
    }

    /// Marks the end of the work of a member's lane. Returns `None` if it has none.
    fn mark(&self, member: usize) -> Result<Option<Mark>, Refused> {
        let Some(Some(lane)) = self.lanes.get(member) else {
            return Ok(None);
        };
        match lane.mark() {
            // Without a mark, the end of the work must be waited for.
            Err(Refused::Task(_)) => lane.synchronize().map(|()| None),
            marked => marked.map(Some),
        }
    }

    /// Returns the lane of a member, whose resources these are.
    fn lane(&mut self, member: usize, resources: &CudaResources) -> Result<&Lane, Refused> {
        if self.lanes.len() <= member {
            self.lanes.resize_with(member + 1, || None);
        }
        let lane = &mut self.lanes[member];
        // A device that was opened again has another context.
        match lane.take().filter(|lane| resources.has_lane(lane)) {
            Some(known) => Ok(lane.insert(known)),
            None => Ok(lane.insert(resources.new_lane()?)),
        }
    }
}

/// Returns the memory of all parts.
fn device_memory(parts: &mut [Part]) -> Result<Vec<DeviceMemory<'_>>, Refused> {
    let memory = parts.iter_mut().map(|part| {
        let why = "its backend did not provide memory of a CUDA device";
        part.device_memory()
            .ok_or_else(|| Refused::Task(why.to_owned()))
    });
    memory.collect()
}

//! A lane for each member of a group, and the work of a call on them.

use std::time::Instant;

use millstream::backend::Refused;
use millstream::cuda::{
    CollectiveOperation, CollectivePart, Communicators, CudaResources, Lane, Mark,
};

use super::flight::{Flight, abort};
use super::{Arrived, Transfer, failure_by, mark_end};
use crate::part::{DeviceMemory, Part};

/// The lanes of a group's members, and their communicators. Each is created by the first call that needs it.
#[derive(Default)]
pub(super) struct Lanes {
    /// `None` also after an abort. Declared before the lanes, which their work may use.
    pub(super) communicators: Option<Communicators>,
    lanes: Vec<Option<Lane>>,
}

/// The marks at the end of work that was submitted, and whether all of it was.
type Launched = (Vec<Mark>, Result<(), Refused>);

impl Lanes {
    /// Submits the work of a call.
    pub(super) fn launch(&mut self, mut call: Arrived) -> Flight {
        let launched = match call.transfer {
            Transfer::Spread => self.copy(&mut call, 1),
            Transfer::Gather => {
                let sources = call.parts.len();
                self.copy(&mut call, sources)
            }
            Transfer::Nccl(operation) => self.communicate(&mut call, operation),
        };
        let (marks, outcome) = launched;
        let failure = outcome.err().map(|refused| failure_by(call.name, refused));
        Flight {
            name: call.name,
            marks,
            parts: call.parts,
            failure,
            is_collective: matches!(call.transfer, Transfer::Nccl(_)),
            began: Instant::now(),
        }
    }

    /// Submits a collective to NCCL.
    fn communicate(&mut self, call: &mut Arrived, operation: CollectiveOperation) -> Launched {
        match self.launch_collective(&call.members, &mut call.parts, operation) {
            Ok(marks) => (marks, Ok(())),
            Err(refused) => {
                abort(&mut self.communicators);
                // The work may run on some GPUs. A lane without a mark has none, or is lost.
                let members = call.members.iter();
                let marks = members.filter_map(|member| self.mark(*member).ok().flatten());
                (marks.collect(), Err(refused))
            }
        }
    }

    /// Returns the marks, or none if there are no bytes.
    fn launch_collective(
        &mut self,
        members: &[usize],
        parts: &mut [Part],
        operation: CollectiveOperation,
    ) -> Result<Vec<Mark>, Refused> {
        let memory = device_memory(parts)?;
        let bytes = |memory: &DeviceMemory<'_>| memory.resources.binding(memory.target());
        if memory
            .iter()
            .filter_map(bytes)
            .all(|(_, bytes, _)| bytes == 0)
        {
            return Ok(Vec::new());
        }
        for (member, memory) in members.iter().zip(&memory) {
            self.lane(*member, memory.resources)?;
        }
        let lanes: Vec<&Lane> = self.lanes.iter().flatten().collect();
        let communicators = match &mut self.communicators {
            Some(known) => known,
            none => none.insert(Communicators::new(&lanes)?),
        };
        let parts = members
            .iter()
            .zip(&memory)
            .map(|(member, memory)| CollectivePart {
                lane: lanes[*member],
                resources: memory.resources,
                source: memory.source(),
                target: memory.target(),
            });
        let mut parts: Vec<_> = members.iter().zip(parts).collect();
        parts.sort_by_key(|(member, _)| **member);
        let parts: Vec<_> = parts.into_iter().map(|(_, part)| part).collect();
        // SAFETY: there is a part of each member, and the parts own their bindings until the marks have completed.
        unsafe { communicators.launch(operation, &parts) }
    }

    /// Copies by the lanes of the sources, the first parts.
    fn copy(&mut self, call: &mut Arrived, sources: usize) -> Launched {
        let mut outcome = self.submit_copies(&call.members, &mut call.parts, sources);
        let mut marks = Vec::new();
        for member in &call.members[..sources] {
            // Also after a refusal: some copies may have been submitted.
            match self.mark(*member) {
                Ok(mark) => marks.extend(mark),
                Err(refused) => outcome = outcome.and(Err(refused)),
            }
        }
        (marks, outcome)
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
        match self.lanes.get(member) {
            Some(Some(lane)) => mark_end(lane),
            _ => Ok(None),
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

//! Reserving: how a slice gets its memory, at once or after it has waited.

use millstream_protocol::backend::Backend;
use millstream_protocol::failure::{Failure, FailureRef, Reason};
use millstream_protocol::id::{Point, SliceId, StreamId};
use millstream_protocol::memory::AllocationMode;
use millstream_protocol::message::{Op, Task};

use super::Server;
use super::issue::Issued;
use crate::hazards::Backing;
use crate::memory::{Asked, Manner, ReserveError};

/// Whether a reservation has waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Patience {
    /// Its slice has just become known: nobody else has named it.
    Fresh,
    /// It was parked; tasks of other streams may wait for it.
    Parked,
}

impl<B: Backend> Server<B> {
    /// Gives a slice its memory, or says that there is none now.
    ///
    /// A stream that waits already goes first: later reservations may only take what was clean
    /// when it began to wait, never what has come back since.
    ///
    /// A fresh slice may take a range that is still used where its stream's queue comes after that use
    /// anyway, and inherits it. One that waited takes only clean memory: its log has entries already.
    pub(super) fn reserve(
        &mut self,
        slice: u32,
        stream: u32,
        mode: Option<AllocationMode>,
        patience: Patience,
    ) -> Result<(), ReserveError> {
        let asked = self.asked(slice, stream);
        let (id, _, bytes) = self.hazards.describe(slice);
        let Some(mode) = mode.filter(|_| bytes > 0) else {
            self.hazards.give(slice, Backing::None(bytes), None);
            return Ok(());
        };
        let has_waited = patience == Patience::Parked;
        let queue = self.scheduler.queue_of(stream);
        let (scheduler, hazards) = (&self.scheduler, &self.hazards);
        let covered = |point: Point| {
            scheduler.has_passed(point)
                || (!has_waited && (point.queue == queue || hazards.implies(queue, point)))
        };
        let manner = Manner {
            mode,
            queue,
            has_waited,
        };
        let device = &mut self.device;
        let granted = self.memory.reserve(device, asked, manner, &covered)?;
        let reservation = granted.reservation;
        self.device.slice_reserved(id, reservation, bytes);
        self.log_memory("reserved", reservation.bytes);
        let residue = (!has_waited).then_some(&granted.residue);
        self.hazards
            .give(slice, Backing::Reserved(reservation), residue);
        if granted.crosses_limit {
            self.observers.count().soft_limit_crossings += 1;
            self.log_crossing(asked.client);
        }
        Ok(())
    }

    /// The reservation of a slice, as a task of `stream` asks for it.
    fn asked(&self, slice: u32, stream: u32) -> Asked {
        let (_, client, bytes) = self.hazards.describe(slice);
        Asked {
            stream,
            client,
            bytes,
        }
    }

    /// Makes a fresh slice known and gives it its memory. Says whether that settled the matter; else the
    /// reservation is to wait.
    pub(super) fn admit_reserve(&mut self, stream: u32, message: &mut Task) -> bool {
        let (
            Op::Reserve {
                client,
                mode,
                position,
            },
            Some(binding),
        ) = (&mut message.op, message.bindings.first().copied())
        else {
            return true;
        };
        *position = self.drops.position();
        let (client, mode) = (*client, *mode);
        let slice = self.insert_slice(binding.slice, client, binding.len);
        if let Some(failure) = self.withdrawn_reserve(message) {
            self.fail_slice(slice, failure);
            return true;
        }
        let granted = self.reserve(slice, stream, mode, Patience::Fresh).is_ok();
        if let Some(terms) = message.terms().filter(|_| granted) {
            terms.done();
        }
        granted
    }

    /// A slice gets no memory.
    pub(super) fn fail_slice(&mut self, slice: u32, failure: FailureRef) {
        self.table.sink().faults.count(&failure.reason);
        self.hazards.fail(slice, failure);
    }

    /// Tries once more to get memory for a slice that got none, because a task of `stream` defines it anew. Returns whether it has
    /// memory now: then all of it is failed still, until the task has run. Never waits for memory.
    #[cold]
    pub(super) fn reserve_again(&mut self, slice: SliceId, stream: Option<StreamId>) -> bool {
        let (Some(key), Some(stream)) = (
            self.objects.slice(slice),
            stream.and_then(|stream| self.objects.stream(stream)),
        ) else {
            return false;
        };
        let (bytes, failure) = match self.hazards.backing(key) {
            // A parameter stands for what replays bind, and never has memory.
            Backing::Failed(_, failure) if failure.reason == Reason::Parameter => return false,
            Backing::Failed(bytes, failure) => (*bytes, failure.clone()),
            Backing::Pending(_) | Backing::Reserved(_) | Backing::None(_) => return false,
        };
        let mode = Some(AllocationMode::Automatic);
        // Its log has entries, so that only clean memory will do.
        let reserved = self.reserve(key, stream, mode, Patience::Parked);
        if reserved.is_ok() {
            #[cfg(test)]
            self.reserved_again.insert(slice);
            self.hazards.poison(key, 0..bytes, failure);
        }
        reserved.is_ok()
    }

    /// The failure of a reservation that is not wanted any more.
    fn withdrawn_reserve(&mut self, task: &Task) -> Option<FailureRef> {
        let terms = task.terms()?;
        let reason = terms.withdrawn(self.askers.now())?;
        terms.removed();
        self.observers.count().withdrawn += 1;
        self.device.log_withdrawn(task, &reason);
        Some(Failure::not_run(&self.objects.names().reserve, reason))
    }

    /// Tries a reservation that had to wait.
    pub(super) fn issue_reserve(&mut self, stream: u32) -> Issued {
        let Some(held) = self.scheduler.take_first(stream) else {
            return Issued::Empty;
        };
        let outcome = self.try_reserve(stream, &held.task);
        match outcome {
            Issued::Yes => self.finish_in_software(stream, held),
            _ => self.scheduler.put_first_back(stream, held),
        }
        outcome
    }

    /// Settles the reservation that `task` asks for, or parks its stream.
    fn try_reserve(&mut self, stream: u32, task: &Task) -> Issued {
        let (Op::Reserve { mode, position, .. }, Some(binding)) =
            (&task.op, task.bindings.first().copied())
        else {
            return Issued::Empty;
        };
        let (mode, position) = (*mode, *position);
        let Some(slice) = self.objects.slice(binding.slice) else {
            return Issued::Empty;
        };
        if let Some(failure) = self.withdrawn_reserve(task) {
            self.fail_slice(slice, failure);
            return Issued::Yes;
        }
        match self.reserve(slice, stream, mode, Patience::Parked) {
            Ok(()) => {
                if let Some(terms) = task.terms() {
                    terms.done();
                }
            }
            Err(ReserveError::OutOfMemory { .. }) => {
                self.scheduler.park_for_memory(stream);
                let asked = self.asked(slice, stream);
                self.observers.count().tasks_parked += u64::from(self.memory.wait(asked, position));
                return Issued::Parked;
            }
            Err(error) => {
                let failure = Failure::not_run(
                    &self.objects.names().reserve,
                    Reason::Refused(error.to_string()),
                );
                self.fail_slice(slice, failure);
                self.observers.count().failures += 1;
            }
        }
        Issued::Yes
    }
}

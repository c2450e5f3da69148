//! Reservations: how a slice gets its memory, at once or after it has waited.

use millstream_protocol::{
    AllocationMode, Backend, Failure, FailureRef, Op, PageError, Point, Reason, SliceId, StreamId,
    Task,
};

use super::Server;
use super::issue::IssueOutcome;
use millstream_state::hazards::Backing;
use millstream_state::memory::{Request, ReserveOptions};

impl<B: Backend> Server<B> {
    /// Reserves memory for a slice. Returns an error if there is none now.
    ///
    /// While streams wait for memory, a later reservation may take only what the first of them does not need, never
    /// memory that has returned since.
    ///
    /// A new slice may get a range that is still in use, if the queue of its stream comes after these uses anyway; its
    /// log begins with them. If the reservation `has_waited`, it gets only clean ranges, because the log of its slice has
    /// entries already.
    fn reserve(
        &mut self,
        slice: u32,
        request: Request,
        mode: Option<AllocationMode>,
        has_waited: bool,
    ) -> Result<(), PageError> {
        let (id, bytes) = (self.hazards.slice(slice).id, request.bytes);
        let Some(mode) = mode.filter(|_| bytes > 0) else {
            self.hazards.give(slice, Backing::None(bytes), None);
            return Ok(());
        };
        let queue = self.scheduler.queue_of(request.stream);
        let (scheduler, hazards) = (&self.scheduler, &self.hazards);
        let covered = |point: Point| {
            scheduler.has_passed(point)
                || (!has_waited && (point.queue == queue || hazards.implies(queue, point)))
        };
        let options = ReserveOptions {
            mode,
            queue,
            has_waited,
        };
        let device = &mut self.device;
        let granted = self.memory.reserve(device, request, options, &covered)?;
        let reservation = granted.reservation;
        if self.hazards.slice(slice).dropped {
            // Its handles were dropped while it waited.
            self.memory.slice_dropped(&reservation);
        }
        self.device.slice_reserved(id, reservation, bytes);
        self.log_memory("reserved", reservation.bytes);
        let residue = (!has_waited).then_some(&granted.residue);
        self.hazards
            .give(slice, Backing::Reserved(reservation), residue);
        if granted.crosses_limit {
            self.observers.counters.soft_limit_crossings += 1;
            self.log_crossing(request.client);
        }
        Ok(())
    }

    /// Returns the reservation of a slice at a position in the mailbox, as a request of `stream`.
    fn request(&self, slice: u32, stream: u32, position: u64) -> Request {
        let slice = self.hazards.slice(slice);
        Request {
            stream,
            client: slice.client,
            bytes: slice.bytes(),
            position,
        }
    }

    /// Adds a new slice and tries to reserve its memory. Returns `true` if the reservation is done, `false` if it must
    /// wait.
    pub(super) fn admit_reserve(&mut self, stream: u32, message: &mut Task) -> bool {
        let now = self.drops.messages();
        let (
            Op::Reserve {
                client, position, ..
            },
            Some(binding),
        ) = (&mut message.op, message.bindings.first())
        else {
            return true;
        };
        *position = now;
        let slice = self.insert_slice(binding.slice, *client, binding.len);
        self.try_reserve((stream, slice), message, false).is_ok()
    }

    /// Records that a slice gets no memory.
    pub(super) fn fail_slice(&mut self, slice: u32, failure: FailureRef) {
        self.table.sink().faults.count(&failure.reason);
        self.hazards.fail(slice, failure);
    }

    /// Tries again to reserve memory for a slice that got none, because a task of `stream` overwrites it. Returns
    /// `true` if it has memory now; all of it is poisoned until the task has run. Never waits for memory.
    #[cold]
    pub(super) fn reserve_again(&mut self, slice: SliceId, stream: Option<StreamId>) -> bool {
        let (Some(key), Some(stream)) = (
            self.objects.slice(slice),
            stream.and_then(|stream| self.objects.stream(stream)),
        ) else {
            return false;
        };
        let (bytes, failure) = match &self.hazards.slice(key).backing {
            // A parameter stands for the slices that replays bind, and never has memory.
            Backing::Failed(_, failure) if failure.reason == Reason::Parameter => return false,
            Backing::Failed(bytes, failure) => (*bytes, failure.clone()),
            Backing::Pending(_) | Backing::Reserved(_) | Backing::None(_) => return false,
        };
        let mode = Some(AllocationMode::Automatic);
        // Its log has entries, so only a clean range serves it.
        let request = self.request(key, stream, u64::MAX);
        let reserved = self.reserve(key, request, mode, true);
        if reserved.is_ok() {
            self.hazards.poison(key, 0..bytes, failure);
        }
        reserved.is_ok()
    }

    /// Serves or fails the reservation that is the first task of a stream, or parks the stream.
    pub(super) fn issue_reserve(&mut self, stream: u32) -> IssueOutcome {
        let Some(held) = self.scheduler.take_first(stream) else {
            return IssueOutcome::Parked;
        };
        if let Some(slice) = self.reserved_slice(&held.task)
            && let Err(request) = self.try_reserve((stream, slice), &held.task, true)
        {
            self.scheduler.put_first_back(stream, held);
            self.scheduler.park_for_memory(stream);
            self.observers.counters.tasks_parked += u64::from(self.memory.wait(request));
            return IssueOutcome::Parked;
        }
        self.finish_in_software(stream, held);
        IssueOutcome::Issued
    }

    /// Returns the slice that a reservation gets memory for.
    pub(super) fn reserved_slice(&self, task: &Task) -> Option<u32> {
        self.objects.slice(task.bindings.first()?.slice)
    }

    /// Serves or fails the reservation of a slice. Returns an error if it must wait.
    fn try_reserve(
        &mut self,
        (stream, slice): (u32, u32),
        task: &Task,
        has_waited: bool,
    ) -> Result<(), Request> {
        let Op::Reserve { mode, position, .. } = task.op else {
            return Ok(());
        };
        if let Some(failure) = self.withdrawn(task) {
            self.fail_slice(slice, failure);
            return Ok(());
        }
        let request = self.request(slice, stream, position);
        match self.reserve(slice, request, mode, has_waited) {
            Ok(()) => {
                if let Some(terms) = task.terms() {
                    terms.done();
                }
            }
            Err(PageError::OutOfMemory { .. }) => return Err(request),
            Err(error) => {
                let why = Reason::Refused(format!("requested {} bytes: {error}", request.bytes));
                self.fail_slice(slice, Failure::not_run(&self.objects.names.reserve, why));
                self.observers.counters.failures += 1;
            }
        }
        Ok(())
    }
}

//! Reservations: how a slice gets its memory, at once or after it has waited, and which reservation fails once no memory can
//! return (I6).

use std::collections::{HashMap, HashSet};

use millstream_protocol::{
    AllocationMode, Backend, Failure, FailureRef, Op, PageError, Point, Reason, SliceId, StreamId,
    Task,
};
use millstream_state::hazards::Backing;
use millstream_state::memory::{Request, ReserveOptions};
use millstream_sync::deferred_wakes;

use super::Server;
use super::issue::IssueOutcome;
use crate::stream_actor::Parked;

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

// Streams that wait for memory: the reservation wait list is served, and its first reservation fails once no memory
// can return (I6).
//
// The [wait list](millstream_state::memory) has the order. A reservation above its soft limit may wait for reservations with
// later mailbox positions. That makes no cycle: it stops waiting once no admitted work can free memory. If memory that
// will return lies behind reservations above their soft limits, the server gives up those instead of one within its
// limit.
//
// **Costs.** A turn visits no reservation that it does not serve, fail or withdraw. Whether memory may return is known
// from counters, except for work that the server cannot issue: tasks behind user code that runs outside of the device
// (a guard, an external task) or behind a full queue. For these the server searches one task that will free memory,
// the *witness*, and keeps it: while the witness is held, no further search is necessary. If there is none, the first
// reservation fails, and only a task behind it can become one: while no such task frees memory, further reservations
// fail without a search.

/// A held task: the key of its stream, and its sequence there.
pub(super) type Witness = (u32, u64);

impl<B: Backend> Server<B> {
    /// Serves the streams that wait for memory, in the order of the wait list. The first reservation fails only if
    /// neither admitted work nor giving up reservations above their soft limits can free memory.
    ///
    /// Each iteration removes one stream from the list, or tries a reservation that is tried again only after memory
    /// was freed, or returns because memory will return.
    pub(super) fn serve_wait_list(&mut self) {
        // Whether it is known that there is no witness.
        let mut has_no_witness = false;
        while let Some(first) = self.memory.wait_list.first() {
            let next = self.memory.next_attempt();
            if let Some(stream) = next.or_else(|| self.memory.next_other_attempt()) {
                has_no_witness &= !self.try_waiting(stream);
                continue;
            }
            if self.memory_may_return() || !has_no_witness && self.has_witness() {
                return;
            }
            let stream = self.blocker_above_limit().unwrap_or(first.stream);
            has_no_witness = !self.frees_memory_behind(stream);
            self.memory.leave_wait_list(stream);
            self.scheduler.unpark(stream);
            self.fail_reservation(stream);
            self.scheduler.resume(stream);
        }
        self.table.sink().releases.forget_wait();
    }

    /// Tries a reservation that waits. Removes it from the list and returns `true` unless it still waits.
    pub(super) fn try_waiting(&mut self, stream: u32) -> bool {
        #[cfg(test)]
        crate::steps::count();
        self.scheduler.unpark(stream);
        let outcome = self.issue_first(stream);
        if outcome == IssueOutcome::Parked && self.scheduler.stream(stream).parked == Parked::Memory
        {
            return false;
        }
        debug_assert_eq!(
            outcome,
            IssueOutcome::Issued,
            "the first task of a stream that waits for memory is its reservation"
        );
        self.memory.leave_wait_list(stream);
        self.scheduler.resume(stream);
        true
    }

    /// Returns a reservation to give up so that the first one, which is within its soft limit, need not fail: a
    /// reservation above its limit behind which dropped memory lies. If only several of them together free any, returns
    /// the first.
    fn blocker_above_limit(&self) -> Option<u32> {
        let waiting = &self.memory.wait_list;
        if self.drops.held_slices == 0
            || !waiting.has_above()
            || waiting.is_above(waiting.first()?.stream)
        {
            return None;
        }
        let (mut above, within): (Vec<u32>, Vec<u32>) = waiting
            .streams()
            .partition(|stream| waiting.is_above(*stream));
        above.sort_by_key(|stream| waiting.position(*stream));
        // By dropped slice: the first reservation that it lies behind, and how many there are.
        let mut behind: HashMap<u32, (u32, u32)> = HashMap::new();
        for stream in &above {
            for slice in self.dropped_behind(std::iter::once(*stream)) {
                behind.entry(slice).or_insert((*stream, 0)).1 += 1;
            }
        }
        if behind.is_empty() {
            return None;
        }
        for slice in self.dropped_behind(within.into_iter()) {
            behind.remove(&slice);
        }
        let alone = behind.values().filter(|(_, count)| *count == 1);
        let alone: HashSet<u32> = alone.map(|(stream, _)| *stream).collect();
        let frees = above.iter().find(|stream| alone.contains(stream));
        frees
            .or(above.first().filter(|_| !behind.is_empty()))
            .copied()
    }

    /// Returns `true` if admitted work can free memory without further calls of users, apart from a witness.
    fn memory_may_return(&mut self) -> bool {
        self.memory.pools.has_busy()
            || self.drops.pending() > 0
            // Tasks that can be issued may include values to drop, and user code.
            || self.can_flush()
            || self.scheduler.has_waiting_hosts()
            // A callback whose work was just issued: it holds its release once it is woken, after this turn.
            || deferred_wakes::has_any()
            // This comes before the check of drops: a release that has ended has put its drops there.
            || self.table.sink().releases.are_open()
            || self.table.has_dropped()
    }

    /// Returns `true` if a task will free memory that waits for running user code or for a full queue, and for no
    /// reservation.
    fn has_witness(&mut self) -> bool {
        if let Some((stream, sequence)) = self.witness
            && let Some(task) = self.scheduler.task(stream, sequence)
            && self.frees_memory(task)
            && !self.scheduler.awaits_memory(stream, sequence)
        {
            return true;
        }
        let blocked = self.scheduler.blocked_streams();
        let mut behind = self.scheduler.stuck_behind(blocked);
        let found = behind.find(|(stream, sequence, held)| {
            self.frees_memory(&held.task) && !self.scheduler.awaits_memory(*stream, *sequence)
        });
        let witness = found.map(|(stream, sequence, _)| (stream, sequence));
        drop(behind);
        self.witness = witness;
        witness.is_some()
    }

    /// Returns `true` if a task that waits, directly or transitively, for the reservation of this stream frees memory.
    /// Only such a task can become a witness once the reservation has failed.
    fn frees_memory_behind(&self, stream: u32) -> bool {
        let mut behind = self.scheduler.stuck_behind(std::iter::once(stream));
        behind.any(|(_, _, held)| self.frees_memory(&held.task))
    }

    /// Returns `true` if memory may be freed once this task has ended: it names a dropped slice, or takes a value of
    /// the user, which may own the last handle of a slice.
    fn frees_memory(&self, task: &Task) -> bool {
        let takes_value = matches!(task.op, Op::DropAfter(_) | Op::Host(_) | Op::Custom(_));
        takes_value || self.dropped_slices(task).next().is_some()
    }

    /// Iterates over the dropped slices that a held task names.
    fn dropped_slices(&self, task: &Task) -> impl Iterator<Item = u32> {
        let slices = task
            .all_bindings()
            .filter_map(|binding| self.objects.slice(binding.slice));
        slices.filter(|slice| self.hazards.slice(*slice).dropped)
    }

    /// Returns the dropped slices that are held by tasks which wait, directly or transitively, for the reservations of
    /// these streams: their memory returns only after these are served.
    fn dropped_behind(&self, these: impl Iterator<Item = u32>) -> HashSet<u32> {
        let stuck = self.scheduler.stuck_behind(these);
        stuck
            .flat_map(|(_, _, held)| self.dropped_slices(&held.task))
            .collect()
    }

    /// Fails the reservation that a stream waits for.
    fn fail_reservation(&mut self, stream: u32) {
        let Some(held) = self.scheduler.take_first(stream) else {
            return;
        };
        if let Some(slice) = self.reserved_slice(&held.task) {
            let requested = self.hazards.slice(slice).bytes();
            let free = self.memory.free_bytes();
            self.log_memory("out of memory", requested);
            let reason = Reason::OutOfMemory { requested, free };
            self.fail_slice(slice, Failure::not_run(&self.objects.names.reserve, reason));
            self.observers.counters.failures += 1;
        }
        self.finish_in_software(stream, held);
    }
}

//! Streams that wait for memory: the reservation wait list is served, and its first reservation fails once no memory
//! can return (I6).
//!
//! The [wait list](millstream_state::memory) has the order. A reservation above its soft limit may wait for reservations with
//! later mailbox positions. That makes no cycle: it stops waiting once no admitted work can free memory. If memory that
//! will return lies behind reservations above their soft limits, the server gives up those instead of one within its
//! limit.
//!
//! **Costs.** A turn visits no reservation that it does not serve, fail or withdraw. Whether memory may return is known
//! from counters, except for work that the server cannot issue: tasks behind user code that runs outside of the device
//! (a guard, an external task) or behind a full queue. For these the server searches one task that will free memory,
//! the *witness*, and keeps it: while the witness is held, no further search is necessary. If there is none, the first
//! reservation fails, and only a task behind it can become one: while no such task frees memory, further reservations
//! fail without a search.

use std::collections::{HashMap, HashSet};

use millstream_protocol::{Backend, Failure, Op, Reason, Task};
use millstream_sync::deferred_wakes;

use super::Server;
use super::issue::IssueOutcome;
use crate::stream_actor::Parked;

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

//! Streams that wait for memory: the reservation wait list is served, and its first reservation fails once no memory
//! can return (I6).
//!
//! The [wait list](crate::memory) has the order. A reservation above its soft limit may wait for reservations with
//! later mailbox positions. That makes no cycle: it stops waiting once no admitted work can free memory. If memory that
//! will return lies behind reservations above their soft limits, the server gives up those instead of one within its
//! limit.

use std::collections::HashSet;
use std::time::Instant;

use millstream_protocol::backend::Backend;
use millstream_protocol::failure::{Failure, Reason};
use millstream_protocol::message::Op;

use super::Server;
use super::issue::IssueOutcome;

impl<B: Backend> Server<B> {
    /// Returns the earliest deadline of a task that waits: a reservation that finds no memory, or a task whose caller
    /// waits for the answer.
    pub fn next_deadline(&self) -> Option<Instant> {
        let deadline = |stream: u32| {
            let held = self.scheduler.first_held(stream)?;
            held.task.terms()?.deadline()
        };
        let reservations = self.memory.waiting_streams().filter_map(deadline);
        reservations
            .chain(self.waiting_callers.next_deadline())
            .min()
    }

    /// Serves the streams that wait for memory, in the order of the wait list. The first reservation fails only if
    /// neither admitted work nor giving up reservations above their soft limits can free memory.
    ///
    /// Each iteration removes one stream from the list, or returns because memory will return.
    pub(super) fn serve_wait_list(&mut self) {
        let scheduler = &self.scheduler;
        self.memory
            .sort_wait_list(|stream| scheduler.contains(stream));
        while let Some(stream) = self.memory.first_waiting() {
            self.scheduler.unpark(stream);
            match self.issue_first(stream) {
                IssueOutcome::Parked if self.scheduler.waits_for_memory(stream) => {
                    if self.memory_may_return() {
                        return;
                    }
                    if let Some(waiter) = self.blocker_above_limit() {
                        self.give_up(waiter);
                        continue;
                    }
                    self.fail_reservation(stream);
                }
                IssueOutcome::QueueFull => {
                    self.scheduler.park_for_memory(stream);
                    return;
                }
                _ => {}
            }
            self.memory.leave_wait_list(stream);
            self.scheduler.resume(stream);
        }
        self.table.sink().releases.forget_wait();
    }

    /// Returns a reservation to give up so that the first one, which is within its soft limit, need not fail: a
    /// reservation above its limit behind which dropped memory lies. If only several of them together free any, returns
    /// the first.
    fn blocker_above_limit(&self) -> Option<u32> {
        let first = self.memory.first_waiting()?;
        if self.drops.held_slices() == 0 || self.memory.exceeds_soft_limit(first) {
            return None;
        }
        let frees =
            |these: &dyn Fn(u32) -> bool| self.drops.held_slices() > self.dropped_behind(these);
        let above_limit = || {
            let waiting = self.memory.waiting_streams();
            waiting.filter(|stream| self.memory.exceeds_soft_limit(*stream))
        };
        above_limit()
            .find(|stream| frees(&|other| other != *stream))
            .or_else(|| {
                above_limit()
                    .next()
                    .filter(|_| frees(&|other| !self.memory.exceeds_soft_limit(other)))
            })
    }

    /// Fails the reservation of a stream that is not the first.
    fn give_up(&mut self, stream: u32) {
        self.memory.give_up(stream);
        self.scheduler.unpark(stream);
        self.fail_reservation(stream);
        self.scheduler.resume(stream);
    }

    /// Returns `true` if admitted work can free memory without further calls of users.
    fn memory_may_return(&self) -> bool {
        self.memory.has_busy()
            || self.drops.has_pending()
            // Tasks that can be issued may include values to drop, and user code.
            || self.can_flush()
            || self.scheduler.has_waiting_hosts()
            // This comes before the check of drops: a release that has ended has put its drops there.
            || self.table.sink().releases.are_open()
            || self.table.has_dropped()
            || (self.drops.held_slices() > 0 && self.drops.held_slices() > self.dropped_behind(|_| true))
    }

    /// Returns the number of dropped slices that are held by tasks which wait, directly or transitively, for the
    /// reservations of these streams: their memory returns only after these are served.
    fn dropped_behind(&self, these: impl Fn(u32) -> bool) -> usize {
        let waiting = self
            .memory
            .waiting_streams()
            .filter(|stream| these(*stream));
        let stuck = self.scheduler.stuck_behind(waiting);
        let bindings = stuck.flat_map(|held| held.task.all_bindings());
        let slices = bindings.filter_map(|binding| self.objects.slice(binding.slice));
        let dropped = slices.filter(|slice| self.hazards.is_dropped(*slice));
        dropped.collect::<HashSet<u32>>().len()
    }

    /// Fails the reservation that a stream waits for.
    fn fail_reservation(&mut self, stream: u32) {
        let Some(held) = self.scheduler.first_held(stream) else {
            return;
        };
        let (Op::Reserve { .. }, Some(binding)) =
            (&held.task.op, held.task.bindings.first().copied())
        else {
            return;
        };
        let Some(slice) = self.objects.slice(binding.slice) else {
            return;
        };
        let (_, _, bytes) = self.hazards.describe(slice);
        let free = self.memory.free_bytes();
        self.log_memory("out of memory", bytes);
        let reason = Reason::OutOfMemory {
            requested: bytes,
            free,
        };
        self.fail_slice(
            slice,
            Failure::not_run(&self.objects.names().reserve, reason),
        );
        self.observers.count().failures += 1;
        if let Some(held) = self.scheduler.take_first(stream) {
            self.finish_in_software(stream, held);
        }
    }
}

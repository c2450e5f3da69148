//! Who waits for memory: the line is tried, and the first fails once nothing can free memory any more (I6).
//!
//! In which order they go is the [`line`](crate::memory)'s. One that goes above its soft limit may wait for reservations that
//! were asked for later. That makes no circle: waiting ends once no memory can come back, and where what is to come back
//! lies behind reservations above their limits, it is those that are given up.

use std::collections::HashSet;
use std::time::Instant;

use millstream_protocol::backend::Backend;
use millstream_protocol::failure::{Failure, Reason};
use millstream_protocol::message::Op;

use super::Server;
use super::issue::Issued;

impl<B: Backend> Server<B> {
    /// When the first task that waits is to be given up: a reservation that finds no memory, or one of which a caller waits for
    /// the answer.
    pub fn next_deadline(&self) -> Option<Instant> {
        let deadline = |stream: u32| {
            let held = self.scheduler.first_held(stream)?;
            held.task.terms()?.deadline()
        };
        let reservations = self.memory.line().filter_map(deadline);
        reservations.chain(self.askers.next_deadline()).min()
    }

    /// Tries the streams that wait for memory, oldest first, those that stay within their soft limits before
    /// others. The first fails only once nothing can free memory any more: neither what was admitted, nor
    /// giving up those that would go above their limits.
    ///
    /// Every turn of the loop takes one stream out of the line, or returns because memory will come back by
    /// itself.
    pub(super) fn serve_line(&mut self) {
        let scheduler = &self.scheduler;
        self.memory.sort_line(|stream| scheduler.contains(stream));
        while let Some(stream) = self.memory.first_in_line() {
            self.scheduler.unpark(stream);
            match self.issue_first(stream) {
                Issued::Parked if self.scheduler.waits_for_memory(stream) => {
                    if self.memory_may_return() {
                        return;
                    }
                    if let Some(above) = self.in_the_way() {
                        self.give_up(above);
                        continue;
                    }
                    self.starve(stream);
                }
                Issued::Full => {
                    self.scheduler.park_for_memory(stream);
                    return;
                }
                _ => {}
            }
            self.memory.leave_line(stream);
            self.scheduler.resume(stream);
        }
        self.table.sink().releases.forget_wait();
    }

    /// While one that stays within its soft limit is about to fail: one in the line that would not, and behind
    /// which dropped memory lies. If it takes several of them to free any, the oldest.
    fn in_the_way(&self) -> Option<u32> {
        let first = self.memory.first_in_line()?;
        if self.drops.in_use() == 0 || self.memory.goes_above(first) {
            return None;
        }
        let frees =
            |these: &dyn Fn(u32) -> bool| self.drops.in_use() > self.dropped_and_stuck(these);
        let above = || {
            let line = self.memory.line();
            line.filter(|stream| self.memory.goes_above(*stream))
        };
        above()
            .find(|stream| frees(&|other| other != *stream))
            .or_else(|| {
                above()
                    .next()
                    .filter(|_| frees(&|other| !self.memory.goes_above(other)))
            })
    }

    /// A stream in the line that is not the first gets no memory.
    fn give_up(&mut self, stream: u32) {
        self.memory.give_up(stream);
        self.scheduler.unpark(stream);
        self.starve(stream);
        self.scheduler.resume(stream);
    }

    /// Can anything that was admitted already free memory without its user doing more?
    fn memory_may_return(&self) -> bool {
        self.memory.has_busy()
            || self.drops.are_early()
            // Tasks that can go have values to drop among them, and user code.
            || self.can_flush()
            || self.scheduler.has_host_turns()
            // Before the look at the drops: what a release has let go of is among those.
            || self.table.sink().releases.are_open()
            || self.table.has_dropped()
            || (self.drops.in_use() > 0 && self.drops.in_use() > self.dropped_and_stuck(|_| true))
    }

    /// How many dropped slices are held by tasks that wait, themselves or through others, for memory that
    /// these streams in the line want: they come back only after it does.
    fn dropped_and_stuck(&self, these: impl Fn(u32) -> bool) -> usize {
        let line = self.memory.line().filter(|stream| these(*stream));
        let stuck = self.scheduler.stuck_behind(line);
        let bindings = stuck.flat_map(|held| held.task.all_bindings());
        let slices = bindings.filter_map(|binding| self.objects.slice(binding.slice));
        let dropped = slices.filter(|slice| self.hazards.is_dropped(*slice));
        dropped.collect::<HashSet<u32>>().len()
    }

    /// The reservation that a stream waits for fails.
    fn starve(&mut self, stream: u32) {
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
        let (_, _, asked) = self.hazards.describe(slice);
        let free = self.memory.free_bytes();
        self.log_memory("not to be had", asked);
        let reason = Reason::OutOfMemory { asked, free };
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

//! Parts: how a task that takes more cursors than its queue has room for is issued (I12).
//!
//! A replay takes a cursor for each task of its recording, and a copy to the host one for each of its results. If they
//! do not fit, the task does not pass through. It is issued in parts and stays the first held task of its stream until
//! the last part is issued; its queue keeps what is left ([`Unfinished`]). Until then no other stream issues there, so
//! the cursors are consecutive. The device thread wakes when there is room, as for any task, and a flush of the queue
//! continues it before any turn.
//!
//! ```text
//!  depth 4, a replay of 6 tasks   issued     in flight   the stream holds
//!  issue_first                    1 2 3 4    4           the replay (unfinished, next 4)
//!  2 complete: progress                      2           the replay
//!  flush_queue                    5 6        4           nothing
//! ```
//!
//! Issued as a whole, a recording of 3,000 tasks that is no graph fills a CUDA stream at about 1,000 pending
//! operations, and the driver blocks the device thread for everyone. To split recordings when they are made would cut
//! their graphs; a thread that blocks in the driver would need locks around every call of the context. A replay of
//! 5,000 tasks on the CPU takes 220 to 247 ns for each task instead of 393 to 451, because the entries stay in the
//! ring of the queue.
//!
//! # What checks it
//!
//! `server/tests/order.rs`, the random programs, of which some have devices with fewer tasks in flight than replays
//! have, and `a_long_replay_does_not_fill_the_stream_i12` on the fake CUDA driver. The mutant
//! `invariants/i12_replay_ignores_room` breaks this file.

use std::ops::Range;

use millstream_protocol::{Backend, FailureRef, Op, Point, QueueId, Task, Terms};

use super::Server;
use super::issue::IssueOutcome;
use crate::scheduler::Unfinished;
use crate::stream_actor::held_task::HeldTask;

impl<B: Backend> Server<B> {
    /// Returns `true` if the queue has room for all cursors that a task takes, after a refresh.
    pub(super) fn fits(&mut self, queue: QueueId, op: &Op) -> bool {
        let cursors = self.cursors_of(op);
        if cursors > self.scheduler.room(queue) {
            self.scheduler.refresh(queue);
        }
        cursors <= self.scheduler.room(queue)
    }

    /// Returns the next part of a task that takes `cursors` cursors in all.
    pub(super) fn next_part(&self, unfinished: &Unfinished, cursors: usize) -> Range<usize> {
        let next = unfinished.next;
        // The task has its first cursor already.
        let has_first = u64::from(next == 0);
        let room = (self.scheduler.room(unfinished.first.queue) + has_first).max(1);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        next..cursors.min(next.saturating_add(room))
    }

    /// Issues the next part of a task that a full queue interrupted.
    #[cold]
    pub(super) fn issue_part(&mut self, unfinished: Unfinished) -> IssueOutcome {
        let Unfinished { stream, first, .. } = unfinished;
        let Some(mut held) = self.scheduler.take_first(stream) else {
            return IssueOutcome::Parked;
        };
        self.scheduler.set_unfinished(first.queue, None);
        let issued = match held.task.op {
            Op::CopyOut(_) => {
                let bound = self.resolve(&held.task);
                bound.and_then(|()| self.copy_out_part(&held.task, unfinished))
            }
            _ => {
                let bound = self.bind_again(&held.task);
                bound.map(|()| self.replay_part((&held.task, held.object), unfinished))
            }
        };
        if let Err(failure) = issued {
            debug_assert!(false, "a task holds its slices, so they stay as they are");
            self.fail(&mut held.task, failure);
        }
        if self.scheduler.queue(first.queue).unfinished.is_none() {
            self.note_last(&held.task, first);
            self.answer(&mut held.task, first);
        }
        self.finish_issued(stream, held, first);
        IssueOutcome::Issued
    }

    /// Finishes a task of which the last part was issued. It stays the first of its stream if parts are left.
    pub(super) fn finish_issued(&mut self, stream: u32, held: Box<HeldTask>, first: Point) {
        if self.scheduler.queue(first.queue).unfinished.is_some() {
            let deadline = held.task.terms().map(Terms::deadline);
            let issued = self.scheduler.queue(first.queue).issued;
            self.scheduler.put_back_after(stream, held, issued);
            if let Some(deadline) = deadline {
                let sequence = self.scheduler.first_sequence(stream);
                self.forget_withdrawal((stream, sequence), deadline);
            }
            return;
        }
        self.finish(stream, held, first);
    }

    /// Issues the next part of the copies of one answer, whose sources are bound. Fails if the first copy is refused.
    pub(super) fn copy_out_part(
        &mut self,
        task: &Task,
        mut unfinished: Unfinished,
    ) -> Result<(), FailureRef> {
        let Op::CopyOut(copy) = &task.op else {
            return Ok(());
        };
        let (first, copies) = (unfinished.first, copy.landings.len());
        let part = self.next_part(&unfinished, copies);
        let (names, bound) = (&self.objects.names, &self.scratch.bound);
        let layouts = task.extra.more().map_or(&[][..], |extra| &extra.layouts);
        let issued = part.end - unfinished.next.max(1);
        self.device
            .copy_out(copy, &names.copy_out, (bound, layouts), (first, part))?;
        self.scheduler.take_cursors(first.queue, issued as u64);
        unfinished.next += issued + usize::from(unfinished.next == 0);
        if unfinished.next < copies {
            self.scheduler.set_unfinished(first.queue, Some(unfinished));
        }
        Ok(())
    }
}

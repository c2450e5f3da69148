//! Progress: what completions set free.

use millstream_protocol::backend::Backend;
use millstream_protocol::failure::{Failure, Reason};
use millstream_protocol::id::Point;
use millstream_protocol::message::Op;

use super::{Effect, Server};
use crate::points::Points;

impl<B: Backend> Server<B> {
    /// Looks at all queues and takes up what their progress sets free. Says whether there was any.
    #[inline]
    pub fn progress(&mut self) -> bool {
        let moved = self.scheduler.progress();
        if moved {
            for (id, queue) in self.scheduler.numbered_queues() {
                self.hazards.completed(id, queue.completed());
            }
            self.retire_passed();
            if self.memory.has_busy() {
                for (id, queue) in self.scheduler.numbered_queues() {
                    self.memory.passed(id, queue.completed());
                }
            }
            if self.scheduler.has_host_turns() {
                self.start_host_turns();
            }
        }
        if self.memory.has_due() {
            self.memory.trim(&mut self.device);
        }
        if !self.memory.is_line_empty() {
            self.serve_line();
        }
        if self.observers.profiles().are_any() {
            self.progress_profiles(moved);
        }
        if !self.askers.is_empty() {
            self.answer_withdrawn();
        }
        moved
    }

    /// Is there anything to flush?
    pub fn can_flush(&self) -> bool {
        self.scheduler.can_flush()
    }

    /// The points whose passing lets the server go on: for each queue at most one. A device thread
    /// that has nothing else to do is to be woken by them.
    pub fn wanted(&self) -> impl Iterator<Item = Point> {
        let anyone_waits = !self.memory.is_line_empty();
        let queues = self.scheduler.numbered_queues();
        queues.filter_map(move |(id, queue)| {
            let issuing = self.scheduler.wants(id);
            let memory = match anyone_waits {
                true => self.memory.oldest_busy(id),
                false => None,
            };
            let profiles = self.observers.profiles();
            let profiles = profiles.wants(id.index(), queue.issued(), queue.completed());
            let cursor = [issuing, memory, profiles]
                .into_iter()
                .flatten()
                .filter(|cursor| *cursor > queue.completed())
                .min()?;
            Some(Point::new(id, cursor))
        })
    }

    /// The last point of each queue that has work in flight: once they have passed, a server that holds nothing is
    /// drained.
    pub fn last_points(&self) -> impl Iterator<Item = Point> {
        self.scheduler.last_points()
    }

    /// Asks the GC actor to watch the last point that freed memory waits for, once per point.
    pub fn watch_freed(&mut self) {
        for (id, queue) in self.scheduler.numbered_queues() {
            let busy = self.memory.oldest_busy(id);
            if let Some(cursor) = self.drops.next_watch(id, busy, queue.completed()) {
                let point = Point::new(id, cursor);
                self.effects.push(Effect::Watch(point));
            }
        }
    }

    /// Everything the server still holds fails: the device is going away. Askers are told, user code
    /// in tasks is dropped; values that issued tasks may use stay until the server is dropped.
    pub fn abandon(&mut self) -> u64 {
        let mut left = 0;
        self.device.close();
        self.askers.forget();
        self.table.sink().releases.forget_wait();
        self.table.sink().staging.end();
        for stream in self.scheduler.keys() {
            // Whoever waits for room in the stream waits no longer (I5).
            let remains = self.scheduler.close(stream);
            for mut held in remains.held {
                left += 1;
                let failure = Failure::not_run(&self.objects.name_of(&held.task), Reason::Closed);
                self.fail(&mut held.task, failure);
                match std::mem::replace(&mut held.task.op, Op::Taken) {
                    Op::DropAfter(value) => {
                        // What came before it may be using the value.
                        let mut after = Points::default();
                        after.extend(remains.last);
                        self.collect_after(value, after);
                    }
                    op => drop(op),
                }
            }
        }
        let gone = self.device.gone();
        self.observers.profiles_mut().lose(|| gone.error());
        // Nobody fetches what was to run on the host; whoever it would have told is told by its end (I5).
        // Values to be collected stay: the device may be using them.
        self.effects.forget_hosts();
        left
    }

    /// Bytes in pages of the device.
    pub fn reserved_bytes(&self) -> u64 {
        self.memory.usage().reserved
    }

    /// Gives the pages back that no slice has; nothing runs any more. Returns their bytes.
    pub fn free_pages(&mut self) -> u64 {
        self.memory.cleanup(&mut self.device)
    }
}

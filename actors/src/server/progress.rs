//! Progress: processes completions, names the points that must wake the device thread, and ends the server.

use millstream_protocol::{Backend, DeferredDrop, Point};

use super::{Effect, Handover, Server};

impl<B: Backend> Server<B> {
    /// Reads the progress of all queues and acts on it: prunes clocks, recycles slots, frees memory, starts host
    /// functions, ends withdrawn tasks, serves the reservation wait list and the profiles. Returns `true` if a queue has
    /// progressed.
    #[inline]
    pub fn progress(&mut self) -> bool {
        let moved = self.scheduler.progress();
        if moved {
            for (id, queue) in self.scheduler.numbered_queues() {
                self.hazards.completed(id, queue.completed);
            }
            self.retire_passed();
            if self.memory.pools.has_busy() {
                for (id, queue) in self.scheduler.numbered_queues() {
                    self.memory.passed(id, queue.completed);
                }
            }
            if self.scheduler.has_waiting_hosts() {
                self.start_ready_hosts();
            }
        }
        if self.memory.pools.has_due() {
            self.memory.pools.trim(&mut self.device);
        }
        if !self.withdrawals.is_empty() {
            self.end_withdrawn();
        }
        if !self.memory.wait_list.is_empty() {
            self.serve_wait_list();
        }
        if self.observers.has_work() {
            self.progress_profiles(moved);
        }
        moved
    }

    /// Returns `true` if there is anything to flush.
    pub fn can_flush(&self) -> bool {
        self.scheduler.can_flush()
    }

    /// Iterates over the points that the server waits for, at most one for each queue. When one of them passes, the
    /// caller must wake the device thread.
    pub fn awaited_points(&self) -> impl Iterator<Item = Point> {
        let memory_is_awaited = !self.memory.wait_list.is_empty();
        let queues = self.scheduler.numbered_queues();
        queues.filter_map(move |(id, queue)| {
            let issuing = self.scheduler.wake_cursor(id);
            let memory = match memory_is_awaited {
                true => self.memory.pools.oldest_busy(id),
                false => None,
            };
            let freed = Some(self.drops.last_use(id));
            let profiles = &self.observers.profiles;
            let profiles = profiles.wake_cursor(id.index(), queue.issued, queue.completed);
            let cursor = [issuing, memory, freed, profiles]
                .into_iter()
                .flatten()
                .filter(|cursor| *cursor > queue.completed)
                .min()?;
            Some(Point::new(id, cursor))
        })
    }

    /// Iterates over the last point of each queue with tasks in flight. A server that holds no task is drained once
    /// they have passed.
    pub fn last_points(&self) -> impl Iterator<Item = Point> {
        self.scheduler.last_points()
    }

    /// Takes the values of users that are to be dropped on another thread at once.
    pub fn take_unused_values(&mut self) -> Vec<DeferredDrop> {
        let mut values = Vec::new();
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::HandOver(Handover { after, value, .. }) if after.is_empty() => {
                    values.push(value);
                }
                effect => self.effects.push_back(effect),
            }
        }
        values
    }

    /// Returns the bytes of all pages.
    pub fn reserved_bytes(&self) -> u64 {
        self.memory.pools.usage().reserved
    }

    /// Frees all empty pages. Returns their bytes.
    pub fn free_pages(&mut self) -> u64 {
        let freed = self.memory.pools.cleanup(&mut self.device);
        self.device.trim();
        freed
    }
}

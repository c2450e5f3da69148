//! Progress: what completions set free.

use crate::backend::Backend;
use crate::failure::{Failure, Reason};
use crate::hazard::points::Points;
use crate::id::{Point, QueueId};
use crate::memory::{PageError, PageId, PageSource};
use crate::message::Op;

use super::askers::Askers;
use super::loss::Loss;
use super::{Effect, Server};

/// A backend as the source of pages, until it is lost.
pub(super) struct Pages<'a, B: Backend>(pub(super) &'a mut B, pub(super) &'a mut Loss);

impl<B: Backend> PageSource for Pages<'_, B> {
    fn allocate_page(&mut self, bytes: u64) -> Result<PageId, PageError> {
        if self.1.noticed {
            return Err(PageError::Lost);
        }
        let span = tracing::debug_span!(target: "millstream", "allocate_page", bytes);
        let _entered = span.enter();
        self.0.allocate(bytes).inspect_err(|error| {
            if *error == PageError::Lost {
                self.1.notice(self.0, "it has no pages any more");
            }
        })
    }

    fn free_page(&mut self, page: PageId) {
        if !self.1.noticed {
            self.0.free(page);
        }
    }
}

impl<B: Backend> Server<B> {
    /// Looks at all queues and takes up what their progress sets free. Says whether there was any.
    #[inline]
    pub fn progress(&mut self) -> bool {
        let mut moved = false;
        for queue in &mut self.queues {
            queue.look();
            // Others look too, when a queue is full or a host function waits; what they saw is taken
            // up here all the same.
            if queue.completed > queue.taken_up {
                queue.taken_up = queue.completed;
                queue.full = false;
                moved = true;
            }
        }
        if moved {
            self.retire_passed();
            if self.pools.has_busy() {
                for index in 0..self.queues.len() {
                    self.pools
                        .passed(QueueId(index as u8), self.queues[index].completed);
                }
            }
            if !self.host_turns.is_empty() {
                self.start_host_turns();
            }
        }
        if self.pools.has_due() {
            self.pools
                .trim(&mut Pages(&mut self.backend, &mut self.loss));
        }
        if !self.hungry.is_empty() {
            self.feed_hungry();
        }
        if self.profiles.are_any() {
            self.progress_profiles(moved);
        }
        if !self.askers.is_empty() {
            self.answer_withdrawn();
        }
        moved
    }

    /// Is there anything to flush?
    pub fn can_flush(&self) -> bool {
        self.queues
            .iter()
            .any(|queue| queue.issued > queue.flushed || (!queue.full && !queue.turn.is_empty()))
    }

    /// The points whose passing lets the server go on: for each queue at most one. A device thread
    /// that has nothing else to do is to be woken by them.
    pub fn wanted(&self) -> impl Iterator<Item = Point> {
        let hungry = !self.hungry.is_empty();
        self.queues
            .iter()
            .enumerate()
            .filter_map(move |(index, queue)| {
                let queue_id = QueueId(index as u8);
                let full = (queue.full && !queue.turn.is_empty())
                    .then(|| queue.completed + (queue.in_flight() / 2).max(1));
                let host = self
                    .host_turns
                    .iter()
                    .filter_map(|stream| self.host_wants(*stream, queue_id))
                    .min();
                let memory = if hungry {
                    self.pools.oldest_busy(queue_id)
                } else {
                    None
                };
                let profiles = self.profiles_want(index);
                let cursor = [full, host, memory, profiles]
                    .into_iter()
                    .flatten()
                    .filter(|cursor| *cursor > queue.completed)
                    .min()?;
                Some(Point::new(queue_id, cursor))
            })
    }

    /// The last point of each queue that has work in flight: once they have passed, a server that holds nothing is
    /// drained.
    pub fn last_points(&self) -> impl Iterator<Item = Point> {
        let queues = self.queues.iter().enumerate();
        let busy = queues.filter(|(_, queue)| queue.in_flight() > 0);
        busy.map(|(index, queue)| Point::new(QueueId(index as u8), queue.issued))
    }

    fn host_wants(&self, stream: u32, queue: QueueId) -> Option<u64> {
        let actor = self.streams.get(stream as usize)?;
        let held = actor.held.front()?;
        let own = (actor.queue == queue).then_some(actor.last);
        let after = held
            .after
            .iter()
            .find(|point| point.queue == queue)
            .map(|point| point.cursor);
        own.into_iter()
            .chain(after)
            .filter(|cursor| *cursor > self.queues[queue.index()].completed)
            .max()
    }

    /// Asks the GC actor to watch the last point that freed memory waits for, once per point.
    pub fn watch_freed(&mut self) {
        for (index, queue) in self.queues.iter_mut().enumerate() {
            let id = QueueId(index as u8);
            let retiring = queue.retiring.back().map(|retiring| retiring.cursor);
            let busy = self.pools.oldest_busy(id);
            let Some(cursor) = retiring
                .max(busy)
                .filter(|cursor| *cursor > queue.completed)
            else {
                continue;
            };
            if queue.watched < cursor {
                queue.watched = cursor;
                self.effects
                    .push_back(Effect::Watch(Point::new(id, cursor)));
            }
        }
    }

    /// Everything the server still holds fails: the device is going away. Askers are told, user code
    /// in tasks is dropped; values that issued tasks may use stay until the server is dropped.
    pub fn abandon(&mut self) -> u64 {
        let mut left = 0;
        self.is_abandoned = true;
        self.askers = Askers::default();
        self.table.sink().releases.forget_wait();
        self.table.sink().staging.end();
        let keys: Vec<u32> = self.streams.iter().map(|(key, _)| key as u32).collect();
        for stream in keys {
            // Whoever waits for room in the stream waits no longer (I5).
            self.streams[stream as usize].credit.end();
            while let Some(mut held) = self.streams[stream as usize].held.pop_front() {
                left += 1;
                let failure = Failure::not_run(&self.name_of(&held.task), Reason::Closed);
                self.fail(&mut held.task, failure);
                match std::mem::replace(&mut held.task.op, Op::Taken) {
                    Op::DropAfter(value) => {
                        // What came before it may be using the value.
                        let last = self.streams[stream as usize].last_point();
                        let mut after = Points::default();
                        last.into_iter().for_each(|last| after.insert(last));
                        self.collect_after(value, after);
                    }
                    op => drop(op),
                }
            }
        }
        self.lose_profiles();
        // Nobody fetches what was to run on the host; whoever it would have told is told by its end (I5).
        // Values to be collected stay: the device may be using them.
        self.effects
            .retain(|effect| !matches!(effect, Effect::Host { .. }));
        left
    }

    /// Bytes in pages of the device.
    pub fn reserved_bytes(&self) -> u64 {
        self.pools.usage().reserved
    }

    /// Gives the pages back that no slice has; nothing runs any more. Returns their bytes.
    pub fn free_pages(&mut self) -> u64 {
        let mut pages = Pages(&mut self.backend, &mut self.loss);
        self.pools.cleanup(&mut pages)
    }
}

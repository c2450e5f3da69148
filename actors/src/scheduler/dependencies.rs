//! Dependencies between held tasks of different streams.
//!
//! Each link leads from a held task to a task of another stream that is earlier in the mailbox, so there is no cycle.
//! When the earlier task is issued, the link becomes a point. Each link is stored twice: in `awaits` of the later task,
//! and as a [`Waiter`] of the earlier task's stream.

use std::cmp::Reverse;
use std::collections::HashMap;

use millstream_protocol::{Point, Priority};
use smallvec::{SmallVec, smallvec};

use super::Scheduler;
use crate::stream_actor::HeldTask;
use crate::stream_actor::{Parked, Waiter};

impl Scheduler {
    /// Makes a task come after held tasks of other streams, by stream and sequence. `stream` will hold it as its task
    /// `sequence`. Drains `others`. Called once for each task.
    pub(crate) fn come_after(
        &mut self,
        (stream, sequence): (u32, u64),
        held: &mut HeldTask,
        others: &mut Vec<(u32, u64)>,
    ) {
        // One link per task: two bindings may conflict with the same task.
        others.sort_unstable();
        others.dedup();
        for (link, (other, theirs)) in (0..).zip(others.drain(..)) {
            held.awaits.push((other, theirs));
            let waiter = Waiter {
                sequence: theirs,
                stream,
                task: sequence,
                link,
            };
            self.streams[other as usize].waiters.push(Reverse(waiter));
        }
    }

    /// Raises the priority of the tasks that a task of `stream` awaits to that of the stream.
    pub(crate) fn raise_priority(&mut self, stream: u32, awaits: &[(u32, u64)]) {
        let priority = self.streams[stream as usize].own_priority;
        for (other, sequence) in awaits {
            self.inherit(*other, *sequence, priority);
        }
    }

    /// Raises the priority of a stream's tasks up to `sequence`, and of the tasks that these await.
    ///
    /// The walk follows the links of the tasks whose priority rises. It uses a list instead of recursion, since a chain
    /// may be as long as there are streams. It visits each task once for each priority.
    fn inherit(&mut self, stream: u32, sequence: u64, priority: Priority) {
        let mut open: SmallVec<[(u32, u64); 8]> = smallvec![(stream, sequence)];
        while let Some((stream, sequence)) = open.pop() {
            let Some(actor) = self.streams.get_mut(stream as usize) else {
                continue;
            };
            let tasks = actor.inherit(priority, sequence);
            if tasks.is_empty() {
                continue;
            }
            let links = actor.held.range(tasks).flat_map(|held| &held.awaits);
            open.extend(links.copied());
            if actor.waits_for_turn {
                let priority = actor.priority();
                let turns = &mut self.queues[actor.queue.index()].turns;
                turns.leave(stream);
                turns.join(stream, priority);
            }
        }
    }

    /// Makes the tasks that awaited this one come after `point`, its last point.
    pub(super) fn wake_waiters(&mut self, stream: u32, sequence: u64, point: Point) {
        loop {
            let waiters = &mut self.streams[stream as usize].waiters;
            let Some(Reverse(waiter)) = waiters
                .peek()
                .copied()
                .filter(|first| first.0.sequence <= sequence)
            else {
                return;
            };
            waiters.pop();
            if let Some(actor) = self.streams.get_mut(waiter.stream as usize)
                && let Some(held) = actor.held_mut(waiter.task)
            {
                held.unlink(waiter.link);
                held.after.insert(point);
                self.join_turns(waiter.stream);
            }
        }
    }

    /// Iterates over the first tasks of these streams, and over the tasks that wait for them, directly or transitively:
    /// the stream, the sequence, and the task.
    pub(crate) fn stuck_behind(
        &self,
        streams: impl Iterator<Item = u32>,
    ) -> impl Iterator<Item = (u32, u64, &HeldTask)> {
        // The first stuck sequence of each stream that has one.
        let mut stuck: HashMap<u32, u64> = HashMap::new();
        let first = |key| Some((key, self.streams.get(key as usize)?.issued + 1));
        let mut open: Vec<(u32, u64)> = streams.filter_map(first).collect();
        while let Some((key, first)) = open.pop() {
            #[cfg(test)]
            crate::steps::count();
            let known = stuck.entry(key).or_insert(u64::MAX);
            if *known <= first {
                continue;
            }
            *known = first;
            let waiters = self.streams[key as usize].waiters.iter();
            let behind = waiters
                .map(|Reverse(waiter)| waiter)
                .filter(|waiter| waiter.sequence >= first);
            open.extend(behind.map(|waiter| (waiter.stream, waiter.task)));
        }
        stuck.into_iter().flat_map(|(key, first)| {
            let actor = &self.streams[key as usize];
            let before = (first - actor.issued - 1) as usize;
            let held = actor.held.iter().skip(before);
            (first..)
                .zip(held)
                .map(move |(sequence, held)| (key, sequence, &**held))
        })
    }

    /// Returns `true` if the held task `sequence` of a stream waits, directly or transitively, for a reservation that
    /// waits for memory.
    pub(crate) fn awaits_memory(&self, stream: u32, sequence: u64) -> bool {
        // The last sequence of each stream whose tasks up to it were visited.
        let mut visited: HashMap<u32, u64> = HashMap::new();
        let mut open: SmallVec<[(u32, u64); 8]> = smallvec![(stream, sequence)];
        while let Some((key, sequence)) = open.pop() {
            #[cfg(test)]
            crate::steps::count();
            let Some(actor) = self.get(key).filter(|actor| actor.issued < sequence) else {
                continue;
            };
            if actor.parked == Parked::Memory {
                return true;
            }
            let known = visited.entry(key).or_insert(actor.issued);
            let from = (*known - actor.issued) as usize;
            let until = ((sequence - actor.issued) as usize).min(actor.held.len());
            if from < until {
                *known = sequence;
                let links = actor.held.range(from..until);
                open.extend(links.flat_map(|held| &held.awaits).copied());
            }
        }
        false
    }

    /// Iterates over the streams whose first task was admitted and cannot be issued now, but will be without a further
    /// message: host functions run, or the queue is full.
    pub(crate) fn blocked_streams(&self) -> impl Iterator<Item = u32> {
        let full = self.queues.iter().filter(|queue| queue.full);
        let waiting = full.flat_map(|queue| queue.turns.streams());
        self.host_names.keys().copied().chain(waiting)
    }
}

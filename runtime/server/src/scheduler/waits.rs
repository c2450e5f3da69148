//! Which held tasks come after which.
//!
//! Each edge leads from a held task to an earlier one of another stream, so there is no cycle. It turns into a point when the
//! earlier one is issued.

use std::cmp::Reverse;
use std::collections::HashMap;

use millstream_protocol::id::Point;
use millstream_protocol::priority::Priority;
use smallvec::{SmallVec, smallvec};

use super::Scheduler;
use super::actor::Waiter;
use super::task::HeldTask;

impl Scheduler {
    /// A task that is to be held by `stream`, as its task `sequence`, comes after the held task `theirs` of another stream.
    pub(crate) fn come_after(
        &mut self,
        (stream, sequence): (u32, u64),
        held: &mut HeldTask,
        (other, theirs): (u32, u64),
    ) {
        // One edge a task: two bindings may conflict with the same one.
        if !held.awaits.contains(&(other, theirs)) {
            held.awaits.push((other, theirs));
            let waiter = Waiter {
                sequence: theirs,
                stream,
                task: sequence,
            };
            self.streams[other as usize].waiters.push(Reverse(waiter));
        }
    }

    /// What a task of `stream` waits for becomes as urgent as the stream.
    pub(crate) fn hurry(&mut self, stream: u32, awaits: &[(u32, u64)]) {
        let priority = self.streams[stream as usize].own_priority;
        for (other, sequence) in awaits {
            self.inherit(*other, *sequence, priority);
        }
    }

    /// A stream of this priority waits for another's tasks up to `sequence`: they become as urgent, and so does what they
    /// wait for.
    ///
    /// The walk follows the edges of the tasks that become more urgent, with a list instead of recursion, since a chain may be as
    /// long as there are streams. Each task is visited once for each priority.
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
            let edges = actor.held.range(tasks).flat_map(|held| &held.awaits);
            open.extend(edges.copied());
            if actor.in_turn {
                let urgency = actor.priority();
                let turn = &mut self.queues[actor.queue.index()].turn;
                turn.leave(stream);
                turn.join(stream, urgency);
            }
        }
    }

    /// Tasks that waited for this one to be issued come after `point` now, where it ends.
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
                held.awaits
                    .retain(|edge| *edge != (stream, waiter.sequence));
                held.come_after(point);
                self.join_turn(waiter.stream);
            }
        }
    }

    /// The tasks that wait, themselves or through others, for the first tasks of these streams.
    pub(crate) fn stuck_behind(
        &self,
        streams: impl Iterator<Item = u32>,
    ) -> impl Iterator<Item = &HeldTask> {
        // The first stuck sequence of each stream that has one.
        let mut stuck: HashMap<u32, u64> = HashMap::new();
        let first = |key| Some((key, self.streams.get(key as usize)?.issued + 1));
        let mut open: Vec<(u32, u64)> = streams.filter_map(first).collect();
        while let Some((key, first)) = open.pop() {
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
            actor.held.iter().skip(before).map(|held| &**held)
        })
    }
}

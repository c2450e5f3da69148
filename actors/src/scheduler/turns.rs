//! Turns: which stream of a queue issues next, by priority, and how many tasks.
//!
//! Each priority has a list of waiting streams. A round gives each list its share of turns: high 8, normal 4, low 1. A
//! list that is empty or has used its share is skipped. The round ends when no list that has turns left has a stream.
//!
//! **No starvation.** While a stream waits in a list, the other lists get at most twice their shares between two turns
//! of that list (the rest of one round and the beginning of the next), so at most 24 turns. Within a list, streams take
//! turns in the order in which they joined.

use millstream_protocol::{Op, Priority, QueueId, Strategy};

use super::Scheduler;

/// The turns of each list in a round, by [`Priority`].
const SHARES: [u8; Priority::COUNT] = [1, 4, 8];

/// The number of lists.
const LISTS: u32 = Priority::COUNT as u32;

/// The streams of one queue that may have a task that can be issued, each at most once. A stream that was flushed out
/// of turn keeps its place; its turn then issues nothing.
///
/// A stream may leave from anywhere in its list, so each list is a ring of links: one for the list itself, where the
/// ring begins and ends, and one for each of its streams. A link that is its own neighbour is an empty list, or a stream
/// that does not wait.
#[derive(Debug)]
pub(crate) struct Turns {
    /// The links of the lists, by priority, and then those of the streams, by key. Only a stream with a greater key than
    /// all before needs heap memory to join.
    links: Vec<Link>,
    /// The turns that each list has left in this round.
    turns_left: [u8; Priority::COUNT],
    #[cfg(test)]
    links_visited: u64,
}

/// The neighbours of a link in its ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Link {
    before: u32,
    after: u32,
}

impl Link {
    fn alone(index: u32) -> Self {
        Self {
            before: index,
            after: index,
        }
    }
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            links: (0..LISTS).map(Link::alone).collect(),
            turns_left: SHARES,
            #[cfg(test)]
            links_visited: 0,
        }
    }
}

impl Turns {
    /// Returns `true` if no stream waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        (0..LISTS).all(|list| self.after(list) == list)
    }

    /// Iterates over the streams that wait.
    pub(crate) fn streams(&self) -> impl Iterator<Item = u32> {
        let next = |index: &u32| Some(self.after(*index));
        (0..LISTS).flat_map(move |list| {
            let streams = std::iter::successors(next(&list), next);
            let streams = streams.take_while(move |index| *index != list);
            streams.map(|index| index - LISTS)
        })
    }

    /// Adds a stream behind those of its priority. It must not wait already.
    #[inline]
    pub(crate) fn join(&mut self, stream: u32, priority: Priority) {
        let last = self.links[priority as usize].before;
        self.insert_after(last, stream);
    }

    /// Takes the stream that has the next turn.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<u32> {
        if let Some(stream) = self.next_in_round() {
            return Some(stream);
        }
        self.turns_left = SHARES;
        self.next_in_round()
    }

    #[inline]
    fn next_in_round(&mut self) -> Option<u32> {
        for list in (0..LISTS).rev() {
            let first = self.after(list);
            let turns_left = &mut self.turns_left[list as usize];
            if *turns_left > 0 && first != list {
                *turns_left -= 1;
                self.unlink(first);
                return Some(first - LISTS);
            }
        }
        None
    }

    /// Puts back the stream that had the last turn and could not issue: it keeps its place, and its turn is not
    /// counted.
    pub(crate) fn put_back(&mut self, stream: u32, priority: Priority) {
        self.insert_after(priority as u32, stream);
        let (list, turns_left) = (priority as usize, &mut self.turns_left[priority as usize]);
        *turns_left = (*turns_left + 1).min(SHARES[list]);
    }

    /// Removes a stream, in whichever list it is. Does nothing if it does not wait.
    pub(crate) fn leave(&mut self, stream: u32) {
        let index = LISTS + stream;
        if (index as usize) < self.links.len() {
            self.unlink(index);
        }
    }

    #[inline]
    fn after(&self, index: u32) -> u32 {
        self.links[index as usize].after
    }

    #[inline]
    fn insert_after(&mut self, before: u32, stream: u32) {
        let index = LISTS + stream;
        let known = self.links.len() as u32;
        self.links.extend((known..=index).map(Link::alone));
        debug_assert_eq!(*self.link(index), Link::alone(index), "it waits once");
        let after = std::mem::replace(&mut self.link(before).after, index);
        self.link(after).before = index;
        *self.link(index) = Link { before, after };
    }

    #[inline]
    fn unlink(&mut self, index: u32) {
        let Link { before, after } = std::mem::replace(self.link(index), Link::alone(index));
        self.link(before).after = after;
        self.link(after).before = before;
    }

    #[inline]
    fn link(&mut self, index: u32) -> &mut Link {
        #[cfg(test)]
        {
            self.links_visited += 1;
        }
        &mut self.links[index as usize]
    }
}

// Turns of streams: decides when a stream joins the turns of its queue, and how many tasks it may issue in one turn.

/// A turn of a stream on its queue.
pub(crate) struct Turn {
    pub(crate) stream: u32,
    /// The number of tasks that the stream may issue in this turn.
    pub(crate) quantum: usize,
    /// The number of tasks that the stream issued in this turn before a full queue interrupted it; 0 if none did.
    pub(crate) issued: usize,
}

impl Scheduler {
    /// Adds a stream to the turns of its queue if the server can try to issue the stream's first held task. Does
    /// nothing if the stream is in the turns already.
    #[inline]
    pub(super) fn join_turns(&mut self, stream: u32) {
        let actor = &mut self.streams[stream as usize];
        if !actor.waits_for_turn && actor.can_issue() {
            actor.waits_for_turn = true;
            actor.turn_issued = 0;
            let priority = actor.priority();
            self.queues[actor.queue.index()]
                .turns
                .join(stream, priority);
        }
    }

    /// Same as [`Scheduler::join_turns`]. Does nothing if the stream was removed, which may happen with its last task.
    #[inline]
    pub(crate) fn resume(&mut self, stream: u32) {
        if self.contains(stream) {
            self.join_turns(stream);
        }
    }

    /// Returns `true` if a stream waits for a turn on this queue.
    #[inline]
    pub(crate) fn has_turns(&self, queue: QueueId) -> bool {
        !self.queues[queue.index()].turns.is_empty()
    }

    /// Starts the next turn on a queue, if a stream waits for one.
    pub(crate) fn next_turn(&mut self, queue: QueueId) -> Option<Turn> {
        let stream = self.queues[queue.index()].turns.next()?;
        let quantum = match self.strategy {
            Strategy::Interleave => 1,
            Strategy::Sequential => self.batch_size,
        };
        let actor = &mut self.streams[stream as usize];
        actor.waits_for_turn = false;
        Some(Turn {
            stream,
            quantum: quantum.saturating_mul(actor.weight),
            issued: std::mem::take(&mut actor.turn_issued),
        })
    }

    /// Returns `false` if the first held task of a stream only has a place in the order (an answer, a mark or a
    /// deferred drop). All other tasks count against the quantum.
    #[inline]
    pub(crate) fn first_does_work(&self, stream: u32) -> bool {
        let first = self.get(stream).and_then(|actor| actor.held.front());
        !first.is_some_and(|held| {
            matches!(
                held.task.op,
                Op::Answer(_) | Op::SyncPart(_) | Op::Mark | Op::DropAfter(_)
            )
        })
    }

    /// Puts back a turn that a full queue interrupted, as the next turn. A stream is in the turns at most once: if it
    /// joined them again during the turn (when one of its tasks finished without a queue), that place is removed.
    pub(crate) fn put_back(&mut self, queue: QueueId, stream: u32, issued: usize) {
        let turns = &mut self.queues[queue.index()].turns;
        let actor = &mut self.streams[stream as usize];
        actor.turn_issued = issued;
        if std::mem::replace(&mut actor.waits_for_turn, true) {
            turns.leave(stream);
        }
        turns.put_back(stream, actor.priority());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    const ALL: [Priority; 3] = [Priority::Low, Priority::Normal, Priority::High];

    /// I12: a task may inherit a priority, and a stream may be dropped, while very many streams wait.
    #[test]
    fn leaving_visits_a_stream_and_its_neighbours_i12() {
        const STREAMS: u32 = 32_000;
        let mut turns = Turns::default();
        for stream in 0..STREAMS {
            turns.join(stream, ALL[stream as usize % 3]);
        }
        turns.links_visited = 0;
        for stream in (0..STREAMS).rev() {
            turns.leave(stream);
        }
        assert_eq!(turns.links_visited, 3 * u64::from(STREAMS));
        assert!(turns.is_empty());
    }

    /// The turns as three queues of streams.
    struct Queues {
        waiting: [VecDeque<u32>; 3],
        turns_left: [u8; 3],
    }

    impl Queues {
        fn next(&mut self) -> Option<u32> {
            self.next_in_round().or_else(|| {
                self.turns_left = SHARES;
                self.next_in_round()
            })
        }

        fn next_in_round(&mut self) -> Option<u32> {
            let lists = self.waiting.iter_mut().zip(&mut self.turns_left).rev();
            let mut lists = lists.filter(|(list, left)| **left > 0 && !list.is_empty());
            let (list, left) = lists.next()?;
            *left -= 1;
            list.pop_front()
        }

        fn put_back(&mut self, stream: u32, list: usize) {
            self.waiting[list].push_front(stream);
            self.turns_left[list] = SHARES[list].min(self.turns_left[list] + 1);
        }

        fn leave(&mut self, stream: u32) {
            for list in &mut self.waiting {
                list.retain(|other| *other != stream);
            }
        }

        fn streams(&self) -> Vec<u32> {
            self.waiting.iter().flatten().copied().collect()
        }
    }

    proptest! {
        #[test]
        fn turns_are_those_of_three_queues(
            steps in prop::collection::vec((0..4_u8, 0..12_u32, 0..3_usize), 1..400),
        ) {
            let mut turns = Turns::default();
            let mut model = Queues { waiting: Default::default(), turns_left: SHARES };
            for (step, stream, list) in steps {
                let waits = model.streams().contains(&stream);
                match step {
                    0 if !waits => {
                        turns.join(stream, ALL[list]);
                        model.waiting[list].push_back(stream);
                    }
                    0 | 1 => {
                        turns.leave(stream);
                        model.leave(stream);
                    }
                    _ => {
                        let next = model.next();
                        prop_assert_eq!(turns.next(), next);
                        if let (2, Some(stream)) = (step, next) {
                            turns.put_back(stream, ALL[list]);
                            model.put_back(stream, list);
                        }
                    }
                }
                prop_assert_eq!(turns.streams().collect::<Vec<_>>(), model.streams());
                prop_assert_eq!(turns.is_empty(), model.streams().is_empty());
            }
        }
    }

    proptest! {
        /// I12: no stream starves, whichever streams join beside it; none is lost or gets a turn twice.
        #[test]
        fn other_lists_get_at_most_twice_their_shares_while_a_list_waits(
            steps in prop::collection::vec((0..3_usize, any::<bool>()), 1..400),
        ) {
            let mut turns = Turns::default();
            let mut waiting: [VecDeque<u32>; 3] = Default::default();
            let (mut made, mut skipped) = (0, [0_u32; 3]);
            for (list, joins) in steps {
                if joins {
                    turns.join(made, ALL[list]);
                    waiting[list].push_back(made);
                    made += 1;
                    continue;
                }
                let Some(stream) = turns.next() else {
                    prop_assert!(waiting.iter().all(VecDeque::is_empty));
                    continue;
                };
                let had_turn = waiting.iter().position(|list| list.front() == Some(&stream));
                prop_assert!(had_turn.is_some(), "the first of a list has the turn");
                for list in 0..3 {
                    if Some(list) == had_turn {
                        waiting[list].pop_front();
                        skipped[list] = 0;
                    } else if !waiting[list].is_empty() {
                        skipped[list] += 1;
                        let others: u32 = (0..3).filter(|other| *other != list).map(|other| u32::from(SHARES[other])).sum();
                        prop_assert!(skipped[list] <= 2 * others);
                    } else {
                        skipped[list] = 0;
                    }
                }
            }
        }
    }
}

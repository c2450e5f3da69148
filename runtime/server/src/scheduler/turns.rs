//! Turns: which stream of a queue issues next, by priority.
//!
//! Each priority has a list of waiting streams. A round gives each list its share of turns: high 8, normal 4, low 1. A
//! list that is empty or has used its share is skipped. The round ends when no list that has turns left has a stream.
//!
//! **No starvation.** While a stream waits in a list, the other lists get at most twice their shares between two turns
//! of that list (the rest of one round and the beginning of the next), so at most 24 turns. Within a list, streams take
//! turns in the order in which they joined.

use std::collections::VecDeque;

use millstream_protocol::priority::Priority;

/// The turns of each list in a round, by [`Priority`].
const SHARES: [u8; Priority::COUNT] = [1, 4, 8];

/// The streams of one queue that may have a task that can be issued. A stream that was flushed out of turn keeps its
/// place; its turn then issues nothing.
#[derive(Debug)]
pub(crate) struct Turns {
    waiting: [VecDeque<u32>; Priority::COUNT],
    /// The turns that each list has left in this round.
    turns_left: [u8; Priority::COUNT],
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            waiting: Default::default(),
            turns_left: SHARES,
        }
    }
}

impl Turns {
    /// Returns `true` if no stream waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.iter().all(VecDeque::is_empty)
    }

    /// Iterates over the streams that wait.
    pub(crate) fn streams(&self) -> impl Iterator<Item = u32> {
        self.waiting.iter().flatten().copied()
    }

    /// Adds a stream behind those of its priority.
    #[inline]
    pub(crate) fn join(&mut self, stream: u32, priority: Priority) {
        self.waiting[priority as usize].push_back(stream);
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
        for (list, turns_left) in self.waiting.iter_mut().zip(&mut self.turns_left).rev() {
            if *turns_left > 0
                && let Some(stream) = list.pop_front()
            {
                *turns_left -= 1;
                return Some(stream);
            }
        }
        None
    }

    /// Puts back the stream that had the last turn and could not issue: it keeps its place, and its turn is not
    /// counted.
    pub(crate) fn put_back(&mut self, stream: u32, priority: Priority) {
        let (list, turns_left) = (priority as usize, &mut self.turns_left[priority as usize]);
        self.waiting[list].push_front(stream);
        *turns_left = (*turns_left + 1).min(SHARES[list]);
    }

    /// Removes a stream, in whichever list it is.
    pub(crate) fn leave(&mut self, stream: u32) {
        for list in &mut self.waiting {
            list.retain(|other| *other != stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Priority; 3] = [Priority::Low, Priority::Normal, Priority::High];

    #[test]
    fn lists_that_are_never_empty_get_turns_by_their_shares() {
        let mut turns = Turns::default();
        let mut taken = [0_u32; 3];
        for priority in ALL {
            turns.join(priority as u32, priority);
        }
        for _ in 0..13 * 100 {
            let stream = turns.next().unwrap();
            taken[stream as usize] += 1;
            turns.join(stream, ALL[stream as usize]);
        }
        assert_eq!(taken, [100, 400, 800]);
    }

    #[test]
    fn stream_that_is_put_back_keeps_its_place_and_its_turn() {
        let mut turns = Turns::default();
        turns.join(1, Priority::Low);
        turns.join(2, Priority::Low);
        for _ in 0..10 {
            assert_eq!(turns.next(), Some(1));
            turns.put_back(1, Priority::Low);
        }
        turns.join(3, Priority::Normal);
        assert_eq!(turns.next(), Some(3));
        assert_eq!(turns.next(), Some(1));
        turns.leave(2);
        assert!(turns.is_empty() && turns.next().is_none());
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

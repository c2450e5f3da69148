//! Turns: which of the streams that sit on one queue goes next, by priority.
//!
//! Each priority has a line, and a round gives every line its share of goes: high 8, normal 4, low 1. A
//! line that is empty, or has used its share, is passed over; the round ends when nobody with a share
//! left waits.
//!
//! **Nobody starves.** Between two goes of a line in which somebody waits, the other lines have at most
//! twice their shares (the rest of one round and the beginning of the next), so at most 24 goes. Within a
//! line streams go in the order in which they joined.

use std::collections::VecDeque;

use millstream_protocol::priority::Priority;

/// Goes of each line in a round, by [`Priority`].
const SHARES: [u8; Priority::COUNT] = [1, 4, 8];

/// The streams of one queue that may have a task that can be tried. One that was flushed by itself
/// meanwhile keeps its place and is passed over.
#[derive(Debug)]
pub(crate) struct Turns {
    waiting: [VecDeque<u32>; Priority::COUNT],
    /// Goes that each line has left in this round.
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
    /// Does nobody wait?
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.iter().all(VecDeque::is_empty)
    }

    /// A stream waits, behind those of its priority.
    #[inline]
    pub(crate) fn join(&mut self, stream: u32, priority: Priority) {
        self.waiting[priority as usize].push_back(stream);
    }

    /// Who goes next.
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
        for (line, turns_left) in self.waiting.iter_mut().zip(&mut self.turns_left).rev() {
            if *turns_left > 0
                && let Some(stream) = line.pop_front()
            {
                *turns_left -= 1;
                return Some(stream);
            }
        }
        None
    }

    /// Whoever went last could not: it keeps its place and its go.
    pub(crate) fn put_back(&mut self, stream: u32, priority: Priority) {
        let (line, turns_left) = (priority as usize, &mut self.turns_left[priority as usize]);
        self.waiting[line].push_front(stream);
        *turns_left = (*turns_left + 1).min(SHARES[line]);
    }

    /// A stream waits no longer, wherever it stands.
    pub(crate) fn leave(&mut self, stream: u32) {
        for line in &mut self.waiting {
            line.retain(|other| *other != stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Priority; 3] = [Priority::Low, Priority::Normal, Priority::High];

    #[test]
    fn lines_that_are_never_empty_go_by_their_shares() {
        let mut turns = Turns::default();
        let mut goes = [0_u32; 3];
        for priority in ALL {
            turns.join(priority as u32, priority);
        }
        for _ in 0..13 * 100 {
            let stream = turns.next().unwrap();
            goes[stream as usize] += 1;
            turns.join(stream, ALL[stream as usize]);
        }
        assert_eq!(goes, [100, 400, 800]);
    }

    #[test]
    fn who_could_not_go_keeps_its_place_and_its_go() {
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
        /// No stream starves, whoever comes and goes beside it; and none is lost or goes twice.
        #[test]
        fn between_two_goes_of_a_waiting_line_others_have_at_most_twice_their_shares(
            steps in prop::collection::vec((0..3_usize, any::<bool>()), 1..400),
        ) {
            let mut turns = Turns::default();
            let mut waiting: [VecDeque<u32>; 3] = Default::default();
            let (mut made, mut passed_over) = (0, [0_u32; 3]);
            for (line, joins) in steps {
                if joins {
                    turns.join(made, ALL[line]);
                    waiting[line].push_back(made);
                    made += 1;
                    continue;
                }
                let Some(stream) = turns.next() else {
                    prop_assert!(waiting.iter().all(VecDeque::is_empty));
                    continue;
                };
                let went = waiting.iter().position(|line| line.front() == Some(&stream));
                prop_assert!(went.is_some(), "the first of a line goes");
                for line in 0..3 {
                    if Some(line) == went {
                        waiting[line].pop_front();
                        passed_over[line] = 0;
                    } else if !waiting[line].is_empty() {
                        passed_over[line] += 1;
                        let others: u32 = (0..3).filter(|other| *other != line).map(|other| u32::from(SHARES[other])).sum();
                        prop_assert!(passed_over[line] <= 2 * others);
                    } else {
                        passed_over[line] = 0;
                    }
                }
            }
        }
    }
}

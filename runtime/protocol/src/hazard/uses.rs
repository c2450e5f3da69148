//! A set of uses of some bytes: the latest use per queue and per stream.
//!
//! Nearly all bytes have one last writer and one reader since, so the first use lies inline, in sixteen bytes.
//! Further uses lie in a box, which is kept once it is allocated (I9). Invariant: `more` has entries only if `first`
//! has one. Bytes that very many streams read have an index of them, so that each of these reads is found in one step.

use std::collections::HashMap;

use crate::id::{Point, QueueId};

/// A flag in `user`: the other bits are the number of a queue, not the key of a stream.
const QUEUE: u32 = 1 << 31;
/// The value of `user` for no use.
const NO_USER: u32 = u32::MAX;

/// One use of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// A use by a task that a stream holds.
    Held {
        /// The stream's key on the device thread.
        stream: u32,
        /// The task's position in the stream.
        sequence: u64,
    },
    /// A use by a task that was issued to a queue.
    Issued(Point),
}

/// A packed [`Use`]: the queue or the stream, and the position there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    user: u32,
    at: u64,
}

impl Entry {
    const NONE: Entry = Entry {
        user: NO_USER,
        at: 0,
    };

    #[inline(always)]
    fn new(used: Use) -> Self {
        match used {
            Use::Held { stream, sequence } => Entry {
                user: stream,
                at: sequence,
            },
            Use::Issued(point) => Entry {
                user: QUEUE | u32::from(point.queue.0),
                at: point.cursor,
            },
        }
    }

    #[inline(always)]
    fn unpack(self) -> Use {
        if self.user & QUEUE == 0 {
            return Use::Held {
                stream: self.user,
                sequence: self.at,
            };
        }
        Use::Issued(Point::new(QueueId(self.user as u8), self.at))
    }
}

/// The number of further uses up to which a search of all is as fast as the index.
const UNINDEXED_MAX: usize = 16;

/// The uses beyond the first.
#[derive(Clone, Default, Debug)]
struct Further {
    entries: Vec<Entry>,
    /// The places in `entries`, by user, once there have been more than [`UNINDEXED_MAX`]; otherwise empty.
    places: HashMap<u32, u32>,
}

impl Further {
    fn place(&self, user: u32) -> Option<usize> {
        if self.places.is_empty() {
            return self.entries.iter().position(|entry| entry.user == user);
        }
        self.places.get(&user).map(|place| *place as usize)
    }

    fn push(&mut self, new: Entry) {
        self.entries.push(new);
        if !self.places.is_empty() {
            self.places.insert(new.user, self.entries.len() as u32 - 1);
        } else if self.entries.len() > UNINDEXED_MAX {
            let places = self.entries.iter().zip(0..);
            self.places = places.map(|(entry, place)| (entry.user, place)).collect();
        }
    }

    fn remove(&mut self, place: usize) -> Entry {
        let removed = self.entries.swap_remove(place);
        if !self.places.is_empty() {
            self.places.remove(&removed.user);
            if let Some(moved) = self.entries.get(place) {
                self.places.insert(moved.user, place as u32);
            }
        }
        removed
    }

    fn clear(&mut self) {
        self.entries.clear();
        if !self.places.is_empty() {
            self.places.clear();
        }
    }
}

/// A set of uses, at most one per queue and per stream.
#[derive(Clone, Debug)]
pub(super) struct Uses {
    first: Entry,
    /// One word while there are no further uses.
    more: Option<Box<Further>>,
}

impl Uses {
    #[inline]
    pub(super) fn new() -> Self {
        Self {
            first: Entry::NONE,
            more: None,
        }
    }

    /// Returns `true` if every use is of `queue`. Conservative: an allocated box counts as another use, even if it is
    /// empty.
    #[inline(always)]
    pub(super) fn only_of(&self, queue: QueueId) -> bool {
        let own = QUEUE | u32::from(queue.0);
        (self.first.user == own || self.first.user == NO_USER) && self.more.is_none()
    }

    /// Calls `f` for each use.
    #[inline(always)]
    pub(super) fn for_each(&self, mut f: impl FnMut(Use)) {
        if self.first.user != NO_USER {
            f(self.first.unpack());
            if let Some(more) = &self.more {
                more.entries.iter().for_each(|entry| f(entry.unpack()));
            }
        }
    }

    /// Removes all uses.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.first = Entry::NONE;
        // The box stays allocated: bytes that several streams have read in turn will be read so again (I9).
        if let Some(more) = &mut self.more {
            more.clear();
        }
    }

    /// Replaces all uses by `used`.
    #[inline(always)]
    pub(super) fn set(&mut self, used: Use) {
        self.clear();
        self.first = Entry::new(used);
    }

    /// Adds a use, and keeps the latest per queue and per stream.
    #[inline(always)]
    pub(super) fn add(&mut self, used: Use) {
        let new = Entry::new(used);
        if self.first.user == new.user {
            self.first.at = self.first.at.max(new.at);
        } else if self.first.user == NO_USER {
            self.first = new;
        } else {
            self.add_further(new);
        }
    }

    #[cold]
    fn add_further(&mut self, new: Entry) {
        let more = self.more.get_or_insert_default();
        match more.place(new.user) {
            Some(place) => more.entries[place].at = more.entries[place].at.max(new.at),
            None => more.push(new),
        }
    }

    /// Replaces the use by the held task (`stream`, `sequence`) with a use by `point`.
    #[inline(always)]
    pub(super) fn issue(&mut self, stream: u32, sequence: u64, point: Point) {
        let held = Entry {
            user: stream,
            at: sequence,
        };
        if self.more.is_some() {
            self.issue_among(held, point);
        } else if self.first == held {
            self.first = Entry::new(Use::Issued(point));
        }
    }

    #[cold]
    fn issue_among(&mut self, held: Entry, point: Point) {
        let Some(more) = &mut self.more else {
            return;
        };
        if self.first == held {
            // The box may be empty, since `clear` keeps it.
            let last = more.entries.len().checked_sub(1);
            self.first = last.map_or(Entry::NONE, |last| more.remove(last));
        } else if let Some(place) = more.place(held.user)
            && more.entries[place] == held
        {
            more.remove(place);
        } else {
            return;
        }
        self.add(Use::Issued(point));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(uses: &Uses) -> Vec<Use> {
        let mut all = Vec::new();
        uses.for_each(|used| all.push(used));
        all
    }

    fn held(stream: u32, sequence: u64) -> Use {
        Use::Held { stream, sequence }
    }

    fn issued(queue: u8, cursor: u64) -> Use {
        Use::Issued(Point::new(QueueId(queue), cursor))
    }

    #[test]
    fn the_latest_use_per_queue_and_stream_is_kept() {
        let mut uses = Uses::new();
        for used in [
            held(1, 5),
            issued(0, 3),
            held(1, 4),
            issued(0, 9),
            issued(2, 1),
        ] {
            uses.add(used);
        }
        assert_eq!(all(&uses), [held(1, 5), issued(0, 9), issued(2, 1)]);
        uses.set(held(7, 1));
        assert_eq!(all(&uses), [held(7, 1)]);
    }

    /// Many streams read the same bytes: the index finds what a search would, in any order of issue.
    #[test]
    fn uses_of_many_streams_are_found_by_their_index() {
        const STREAMS: u32 = 20_000;
        let mut uses = Uses::new();
        for round in 1..=2 {
            for stream in 0..STREAMS {
                uses.add(held(stream, round));
            }
        }
        assert_eq!(all(&uses).len(), STREAMS as usize);
        for stream in (0..STREAMS).rev().step_by(2) {
            uses.issue(stream, 1, Point::new(QueueId(0), 1));
            uses.issue(stream, 2, Point::new(QueueId(0), u64::from(stream)));
        }
        let mut left = all(&uses);
        let issued_at = left
            .iter()
            .position(|used| *used == issued(0, u64::from(STREAMS) - 1));
        left.swap_remove(issued_at.unwrap());
        left.sort_by_key(|used| match used {
            Use::Held { stream, .. } => *stream,
            Use::Issued(_) => u32::MAX,
        });
        let expected = (0..STREAMS).step_by(2).map(|stream| held(stream, 2));
        assert_eq!(left, expected.collect::<Vec<_>>());
        uses.clear();
        uses.add(held(3, 1));
        uses.add(held(4, 1));
        assert_eq!(all(&uses), [held(3, 1), held(4, 1)]);
    }

    #[test]
    fn an_issued_task_is_merged_with_the_uses_of_its_queue() {
        let mut uses = Uses::new();
        for used in [held(1, 5), issued(0, 3), held(2, 6)] {
            uses.add(used);
        }
        uses.issue(1, 4, Point::new(QueueId(0), 8));
        assert_eq!(
            all(&uses).len(),
            3,
            "a held task that is not in the set replaces nothing"
        );
        uses.issue(1, 5, Point::new(QueueId(0), 9));
        uses.issue(2, 6, Point::new(QueueId(1), 1));
        let mut found = all(&uses);
        found.sort_by_key(|used| format!("{used:?}"));
        assert_eq!(found, [issued(0, 9), issued(1, 1)]);
    }
}

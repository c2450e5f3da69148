//! Uses of some bytes: the greatest per queue and per stream.
//!
//! Nearly all bytes have one last writer and one reader since, so one use lies inline, in sixteen
//! bytes; further ones are in a box, which is kept once it is there. Invariant: there are further ones only if there
//! is a first.

use crate::id::{Point, QueueId};

/// In `who`: not a stream's key but a queue's number.
const QUEUE: u32 = 1 << 31;
/// In `who`: no use.
const NOBODY: u32 = u32::MAX;

/// One use of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// By a task that a stream still holds.
    Held {
        /// The stream's key on the device thread.
        stream: u32,
        /// The task's place in the stream.
        sequence: u64,
    },
    /// By a task that a queue has.
    Issued(Point),
}

/// A [`Use`], packed: whose, and the place there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    who: u32,
    at: u64,
}

impl Entry {
    const NONE: Entry = Entry { who: NOBODY, at: 0 };

    #[inline(always)]
    fn new(used: Use) -> Self {
        match used {
            Use::Held { stream, sequence } => Entry {
                who: stream,
                at: sequence,
            },
            Use::Issued(point) => Entry {
                who: QUEUE | u32::from(point.queue.0),
                at: point.cursor,
            },
        }
    }

    #[inline(always)]
    fn unpack(self) -> Use {
        if self.who & QUEUE == 0 {
            return Use::Held {
                stream: self.who,
                sequence: self.at,
            };
        }
        Use::Issued(Point::new(QueueId(self.who as u8), self.at))
    }
}

/// Some uses, at most one per queue and per stream.
#[derive(Clone, Debug)]
pub(super) struct Uses {
    first: Entry,
    #[allow(clippy::box_collection, reason = "one word while there are none")]
    more: Option<Box<Vec<Entry>>>,
}

impl Uses {
    #[inline]
    pub(super) fn new() -> Self {
        Self {
            first: Entry::NONE,
            more: None,
        }
    }

    /// Is there no use but of `queue`?
    #[inline(always)]
    pub(super) fn only_of(&self, queue: QueueId) -> bool {
        let own = QUEUE | u32::from(queue.0);
        (self.first.who == own || self.first.who == NOBODY) && self.more.is_none()
    }

    /// Calls `f` for each.
    #[inline(always)]
    pub(super) fn for_each(&self, mut f: impl FnMut(Use)) {
        if self.first.who != NOBODY {
            f(self.first.unpack());
            if let Some(more) = &self.more {
                more.iter().for_each(|entry| f(entry.unpack()));
            }
        }
    }

    /// Forgets all.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.first = Entry::NONE;
        // The box stays: bytes that several streams read in turn are read so again (I9).
        if let Some(more) = &mut self.more {
            more.clear();
        }
    }

    /// Forgets all but `used`.
    #[inline(always)]
    pub(super) fn set(&mut self, used: Use) {
        self.clear();
        self.first = Entry::new(used);
    }

    /// Adds a use, keeping the greatest per queue and per stream.
    #[inline(always)]
    pub(super) fn add(&mut self, used: Use) {
        let new = Entry::new(used);
        if self.first.who == new.who {
            self.first.at = self.first.at.max(new.at);
        } else if self.first.who == NOBODY {
            self.first = new;
        } else {
            self.add_further(new);
        }
    }

    #[cold]
    fn add_further(&mut self, new: Entry) {
        let more = self.more.get_or_insert_default();
        match more.iter_mut().find(|old| old.who == new.who) {
            Some(old) => old.at = old.at.max(new.at),
            None => more.push(new),
        }
    }

    /// Turns the use by a held task into one by `point`.
    #[inline(always)]
    pub(super) fn issue(&mut self, stream: u32, sequence: u64, point: Point) {
        let held = Entry {
            who: stream,
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
            // An empty box stands for none.
            self.first = more.pop().unwrap_or(Entry::NONE);
        } else if let Some(index) = more.iter().position(|entry| *entry == held) {
            more.swap_remove(index);
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
    fn the_greatest_per_queue_and_stream_stays() {
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

    #[test]
    fn an_issued_task_joins_what_its_queue_has() {
        let mut uses = Uses::new();
        for used in [held(1, 5), issued(0, 3), held(2, 6)] {
            uses.add(used);
        }
        uses.issue(1, 4, Point::new(QueueId(0), 8));
        assert_eq!(
            all(&uses).len(),
            3,
            "an older task of the stream is not there any more"
        );
        uses.issue(1, 5, Point::new(QueueId(0), 9));
        uses.issue(2, 6, Point::new(QueueId(1), 1));
        let mut found = all(&uses);
        found.sort_by_key(|used| format!("{used:?}"));
        assert_eq!(found, [issued(0, 9), issued(1, 1)]);
    }
}

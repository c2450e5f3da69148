//! Freed ranges that some point still uses, of one size class.
//!
//! A range waits on one of its points, its *home*; what other points it has are its *rest*, and when
//! home has passed it moves on to one of those. Per queue there are two heaps, least cursor first:
//! ranges with one point, and ranges with more, so that the latter never hide the former. A heap gives
//! at both ends: its last leaf, which is the range freed most recently where cursors rise (hot, and
//! covered for the queue itself), and its least cursor, the first to be covered elsewhere or to pass.

use millstream_protocol::id::{Cursor, MAX_QUEUES, Point, QueueId};

use super::reservation::Origin;

/// A range that waits for a point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The cursor, on the queue of the heap, that it waits for.
    pub(super) cursor: Cursor,
    /// The range.
    pub(super) origin: Origin,
    /// Where its other points are kept, or [`Entry::NO_OTHERS`].
    pub(super) others: u32,
}

impl Entry {
    /// No other point.
    pub(super) const NO_OTHERS: u32 = u32::MAX;
}

/// The waiting ranges of one class.
#[derive(Default, Debug)]
pub(super) struct BusyHeaps {
    /// Which heaps are not empty: a bit per queue, those with a rest above.
    filled: u32,
    /// The heaps, as far as used, indexed like the bits.
    heaps: Vec<Heap>,
}

impl BusyHeaps {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Adds a range whose home is on `queue`. Returns whether it is the first of its heap.
    #[inline]
    pub(super) fn push(&mut self, queue: QueueId, entry: Entry) -> bool {
        let index = heap_index(queue, entry.others != Entry::NO_OTHERS);
        if index >= self.heaps.len() {
            self.heaps.resize_with(index + 1, Heap::default);
        }
        let first = self.filled & 1 << index == 0;
        self.filled |= 1 << index;
        self.heaps[index].push(entry);
        first
    }

    /// Takes a range for `queue` for which `suits(its home, entry)`, if one of those at hand does:
    /// its own latest, then the oldest of each queue, then the same among those with a rest.
    #[inline]
    pub(super) fn take(
        &mut self,
        queue: QueueId,
        suits: impl Fn(Point, &Entry) -> bool,
    ) -> Option<(Point, Entry)> {
        let own = heap_index(queue, false);
        self.take_last(own, &suits)
            .or_else(|| self.take_elsewhere(queue, &suits))
    }

    /// Any of them but the queue's own latest.
    #[inline(never)]
    fn take_elsewhere(
        &mut self,
        queue: QueueId,
        suits: &impl Fn(Point, &Entry) -> bool,
    ) -> Option<(Point, Entry)> {
        self.take_first(false, suits)
            .or_else(|| self.take_last(heap_index(queue, true), suits))
            .or_else(|| self.take_first(true, suits))
    }

    /// The last leaf of a heap, if it suits.
    #[inline]
    fn take_last(
        &mut self,
        index: usize,
        suits: &impl Fn(Point, &Entry) -> bool,
    ) -> Option<(Point, Entry)> {
        // An empty heap may not even be there.
        let heap = self.heaps.get_mut(index)?;
        let entry = *heap.last()?;
        let home = home(index, &entry);
        if !suits(home, &entry) {
            return None;
        }
        heap.pop_last();
        self.mark_if_empty(index);
        Some((home, entry))
    }

    /// The oldest of any queue, if it suits.
    fn take_first(
        &mut self,
        others: bool,
        suits: &impl Fn(Point, &Entry) -> bool,
    ) -> Option<(Point, Entry)> {
        let mut filled = self.filled & ((1 << MAX_QUEUES) - 1) << heap_index(QueueId(0), others);
        while filled != 0 {
            let index = filled.trailing_zeros() as usize;
            filled &= filled - 1;
            let entry = *self.heaps[index].first()?;
            let home = home(index, &entry);
            if suits(home, &entry) {
                self.heaps[index].pop_first();
                self.mark_if_empty(index);
                return Some((home, entry));
            }
        }
        None
    }

    /// Takes a range whose home, at most `cursor` on `queue`, has passed.
    #[inline]
    pub(super) fn pop_passed(&mut self, queue: QueueId, cursor: Cursor) -> Option<Entry> {
        for index in [heap_index(queue, false), heap_index(queue, true)] {
            if self.filled & 1 << index == 0 {
                continue;
            }
            let heap = &mut self.heaps[index];
            // When everything has passed the last leaf has too, and costs no sifting.
            let passed = if heap.last().is_some_and(|last| last.cursor <= cursor) {
                heap.pop_last()
            } else if heap.first().is_some_and(|first| first.cursor <= cursor) {
                heap.pop_first()
            } else {
                None
            };
            if passed.is_some() {
                self.mark_if_empty(index);
                return passed;
            }
        }
        None
    }

    /// The least cursor on `queue` that a range here waits for.
    pub(super) fn oldest(&self, queue: QueueId) -> Option<Cursor> {
        [heap_index(queue, false), heap_index(queue, true)]
            .into_iter()
            .filter_map(|index| self.heaps.get(index)?.first().map(|first| first.cursor))
            .min()
    }

    /// A range has left a heap.
    #[inline]
    fn mark_if_empty(&mut self, index: usize) {
        if self.heaps[index].0.is_empty() {
            self.filled &= !(1 << index);
        }
    }
}

/// The point that an entry of a heap waits for.
#[inline]
fn home(index: usize, entry: &Entry) -> Point {
    Point::new(QueueId((index % MAX_QUEUES) as u8), entry.cursor)
}

/// The heap, and the bit, of a queue.
#[inline]
fn heap_index(queue: QueueId, others: bool) -> usize {
    debug_assert!(queue.index() < MAX_QUEUES);
    queue.index() + if others { MAX_QUEUES } else { 0 }
}

/// A binary heap, least cursor first, that also gives its last leaf.
#[derive(Default, Debug)]
struct Heap(Vec<Entry>);

impl Heap {
    #[inline]
    fn push(&mut self, entry: Entry) {
        self.0.push(entry);
        let mut at = self.0.len() - 1;
        while at > 0 && self.0[(at - 1) / 2].cursor > entry.cursor {
            self.0.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    #[inline]
    fn first(&self) -> Option<&Entry> {
        self.0.first()
    }

    #[inline]
    fn last(&self) -> Option<&Entry> {
        self.0.last()
    }

    #[inline]
    fn pop_last(&mut self) -> Option<Entry> {
        self.0.pop()
    }

    fn pop_first(&mut self) -> Option<Entry> {
        if self.0.is_empty() {
            return None;
        }
        let first = self.0.swap_remove(0);
        let mut at = 0;
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let Some(mut child) = self.0.get(left).map(|_| left) else {
                break;
            };
            if self
                .0
                .get(right)
                .is_some_and(|entry| entry.cursor < self.0[left].cursor)
            {
                child = right;
            }
            if self.0[at].cursor <= self.0[child].cursor {
                break;
            }
            self.0.swap(at, child);
            at = child;
        }
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: QueueId = QueueId(0);
    const B: QueueId = QueueId(15);

    fn entry(cursor: Cursor, range: u32) -> Entry {
        Entry {
            cursor,
            origin: Origin::Dedicated(range),
            others: Entry::NO_OTHERS,
        }
    }

    #[test]
    fn the_queue_itself_gets_its_latest_and_others_the_oldest() {
        let mut busy = BusyHeaps::default();
        assert!(busy.push(A, entry(1, 1)));
        (2..=9).for_each(|cursor| assert!(!busy.push(A, entry(cursor, cursor as u32))));
        assert_eq!(
            busy.take(A, |_, _| true).map(|(point, _)| point.cursor),
            Some(9)
        );
        assert_eq!(
            busy.take(B, |_, _| true).map(|(point, _)| point.cursor),
            Some(1)
        );
        assert_eq!(
            busy.take(B, |point, _| point.cursor <= 1)
                .map(|(point, _)| point.cursor),
            None
        );
    }

    #[test]
    fn cursors_pass_in_any_order_of_release() {
        let mut busy = BusyHeaps::default();
        let mut cursors: Vec<Cursor> = (0..200).map(|step| step * 7919 % 211).collect();
        cursors.iter().for_each(|cursor| {
            busy.push(B, entry(*cursor, *cursor as u32));
        });
        cursors.sort_unstable();
        assert_eq!(busy.oldest(B), cursors.first().copied());
        for limit in [20, 100, 300] {
            let mut passed: Vec<_> = std::iter::from_fn(|| busy.pop_passed(B, limit))
                .map(|entry| entry.cursor)
                .collect();
            passed.sort_unstable();
            let (expected, left) =
                cursors.split_at(cursors.partition_point(|cursor| *cursor <= limit));
            assert_eq!(passed, expected);
            cursors = left.to_vec();
        }
        assert!(busy.is_empty() && busy.oldest(B).is_none());
    }

    #[test]
    fn ranges_with_a_rest_never_hide_those_without() {
        let mut busy = BusyHeaps::default();
        busy.push(A, entry(1, 1));
        busy.push(
            A,
            Entry {
                others: 0,
                ..entry(2, 2)
            },
        );
        let suits = |_: Point, entry: &Entry| entry.others == Entry::NO_OTHERS;
        assert_eq!(
            busy.take(A, suits).map(|(_, entry)| entry.origin),
            Some(Origin::Dedicated(1))
        );
        assert!(busy.take(A, suits).is_none() && !busy.is_empty());
    }
}

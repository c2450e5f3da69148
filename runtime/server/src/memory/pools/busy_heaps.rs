//! The busy ranges of one size class: freed ranges that some point still uses.
//!
//! A range waits for one of its points, its *home*. If it has *other points*, it moves on to one of them when its home
//! has passed. Each queue has two heaps, least cursor first: one for ranges with one point, and one for ranges with
//! other points, so that the latter never hide the former.
//!
//! A heap is read at both ends. Its last leaf is the most recently freed range if cursors rise, which is hot in caches
//! and covered for the queue itself. Its root has the least cursor, so it is the first to be covered for other queues
//! or to pass.

use millstream_protocol::id::{Cursor, MAX_QUEUES, Point, QueueId};

use super::reservation::Origin;

/// A range that waits for a point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The cursor that it waits for, on the queue of the heap.
    pub(super) cursor: Cursor,
    /// The range.
    pub(super) origin: Origin,
    /// The key of its other points, or [`Entry::NO_OTHERS`].
    pub(super) others: u32,
}

impl Entry {
    /// The range has no other points.
    pub(super) const NO_OTHERS: u32 = u32::MAX;
}

/// The busy ranges of one class.
#[derive(Default, Debug)]
pub(super) struct BusyHeaps {
    /// A bit for each heap that is not empty: one per queue, those of ranges with other points above.
    filled: u32,
    /// The heaps, as far as they were used, indexed like the bits.
    heaps: Vec<Heap>,
}

impl BusyHeaps {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Adds a range whose home is on `queue`. Returns `true` if it is the only one of its heap.
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

    /// Takes a range for `queue` for which `suits` returns `true`, if one of the candidates suits. They are tried in
    /// this order: the queue's own latest range, the oldest of each queue, then the same among ranges with other
    /// points.
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

    /// Takes any candidate but the queue's own latest.
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

    /// Takes the last leaf of a heap, if it suits.
    #[inline]
    fn take_last(
        &mut self,
        index: usize,
        suits: &impl Fn(Point, &Entry) -> bool,
    ) -> Option<(Point, Entry)> {
        // A heap that was never used does not exist.
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

    /// Takes the oldest range of any queue that suits.
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

    /// Takes a range whose home is on `queue` at or before `cursor` and so has passed.
    #[inline]
    pub(super) fn pop_passed(&mut self, queue: QueueId, cursor: Cursor) -> Option<Entry> {
        for index in [heap_index(queue, false), heap_index(queue, true)] {
            if self.filled & 1 << index == 0 {
                continue;
            }
            let heap = &mut self.heaps[index];
            // If everything has passed, so has the last leaf, and taking it needs no sifting.
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

    /// Returns the least cursor on `queue` that a range waits for.
    pub(super) fn oldest(&self, queue: QueueId) -> Option<Cursor> {
        [heap_index(queue, false), heap_index(queue, true)]
            .into_iter()
            .filter_map(|index| self.heaps.get(index)?.first().map(|first| first.cursor))
            .min()
    }

    /// Clears the bit of a heap that a range was taken from, if the heap is empty.
    #[inline]
    fn mark_if_empty(&mut self, index: usize) {
        if self.heaps[index].0.is_empty() {
            self.filled &= !(1 << index);
        }
    }
}

/// Returns the point that an entry of a heap waits for.
#[inline]
fn home(index: usize, entry: &Entry) -> Point {
    Point::new(QueueId((index % MAX_QUEUES) as u8), entry.cursor)
}

/// Returns the index of a queue's heap, and of its bit.
#[inline]
fn heap_index(queue: QueueId, others: bool) -> usize {
    debug_assert!(queue.index() < MAX_QUEUES);
    queue.index() + if others { MAX_QUEUES } else { 0 }
}

/// A binary heap, least cursor first, that also gives access to its last leaf.
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
    fn take_prefers_the_latest_range_of_the_own_queue_and_the_oldest_of_others() {
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
    fn pop_passed_takes_exactly_the_ranges_up_to_the_cursor() {
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
    fn range_with_other_points_does_not_hide_one_without() {
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

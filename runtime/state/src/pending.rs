//! Items that wait for points: freed ranges and slots, and host functions.
//!
//! An item waits for one of its points, its *home*. If it has *other points*, it moves on to one of them when its home
//! has passed. Each queue has two heaps, least cursor first: one for items with one point, and one for items with other
//! points, so that the latter never hide the former.
//!
//! A heap is read at both ends. Its last leaf is the most recent item if cursors rise: of freed ranges, the one that is
//! hot in caches and covered for the queue itself. Its root has the least cursor, so it is the first to be covered for
//! other queues or to pass.
//!
//! Invariants: an entry lies in the heap of its home's queue, in the heap that its other points choose, and each heap has
//! its least cursor at the root. An item leaves only with all of its points covered or passed (I4).
//!
//! The tests below check the order in which items leave; the pools' oracle (`tests/memory`) and the server's random programs
//! check I4. The mutant `invariants/i4_other_points_are_ignored` breaks this file.

use millstream_protocol::{Cursor, Point, QueueId};

use crate::points::Points;

/// An item that waits for a cursor of its heap's queue.
#[derive(Debug)]
struct Entry<T> {
    cursor: Cursor,
    /// The other points.
    others: Points,
    item: T,
}

/// The items, by the queue of their homes. Those whose points have passed leave in any order, or, if `IN_ORDER`, by the
/// cursors of their last homes.
#[derive(Debug)]
pub struct Pending<T, const IN_ORDER: bool = false> {
    /// The heaps of each queue that was used: of items with one point, and of items with other points.
    queues: Vec<[Heap<T>; 2]>,
}

impl<T, const IN_ORDER: bool> Pending<T, IN_ORDER> {
    /// Returns `true` if no item waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries().next().is_none()
    }

    /// Iterates over the items, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries().map(|entry| &entry.item)
    }

    fn entries(&self) -> impl Iterator<Item = &Entry<T>> {
        self.queues.iter().flatten().flat_map(|heap| &heap.0)
    }

    /// Adds an item that waits for `home`, and then for `others`.
    #[inline]
    pub fn push(&mut self, item: T, home: Point, others: Points) {
        // Nothing takes items in order before their points have passed, so none hides another.
        let kind = usize::from(!IN_ORDER && !others.is_empty());
        let queue = home.queue.index();
        if queue >= self.queues.len() {
            self.queues.resize_with(queue + 1, Default::default);
        }
        self.queues[queue][kind].push(Entry {
            cursor: home.cursor,
            others,
            item,
        });
    }

    /// Takes an item that `fits` and of which `queue` covers all points, if one of the candidates is such an item.
    /// Returns it with its points. The candidates are tried in this order: the queue's own latest item, the oldest of
    /// each queue, then the same among items with other points.
    #[inline]
    pub fn take(
        &mut self,
        queue: QueueId,
        covered: impl Fn(Point) -> bool,
        fits: impl Fn(&T) -> bool,
    ) -> Option<(T, Points)> {
        let suits = |queue: usize, entry: &Entry<T>| {
            covered(Point::new(QueueId(queue as u8), entry.cursor))
                && entry.others.iter().all(&covered)
                && fits(&entry.item)
        };
        for kind in 0..2 {
            let own = queue.index();
            if let Some(heaps) = self.queues.get_mut(own)
                && heaps[kind].0.last().is_some_and(|last| suits(own, last))
            {
                return heaps[kind].0.pop().map(|entry| entry.taken(own));
            }
            for (index, heaps) in self.queues.iter_mut().enumerate() {
                if heaps[kind]
                    .0
                    .first()
                    .is_some_and(|first| suits(index, first))
                {
                    return heaps[kind].pop_first().map(|entry| entry.taken(index));
                }
            }
        }
        None
    }

    /// Takes an item of which all points have passed, the last of them on `queue`.
    #[inline]
    pub fn pop_passed(&mut self, queue: QueueId, passed: impl Fn(Point) -> bool) -> Option<T> {
        loop {
            let mut heaps = self.queues.get_mut(queue.index())?.iter_mut();
            let mut entry = heaps.find_map(|heap| {
                heap.pop_if(IN_ORDER, |cursor| passed(Point::new(queue, cursor)))
            })?;
            #[cfg(test)]
            crate::steps::count();
            entry.others.retain_open(&passed);
            match entry.others.pop() {
                Some(home) => self.push(entry.item, home, entry.others),
                None => return Some(entry.item),
            }
        }
    }

    /// Returns the least cursor on `queue` that an item waits for.
    pub fn oldest(&self, queue: QueueId) -> Option<Cursor> {
        let heaps = self.queues.get(queue.index())?.iter();
        heaps.filter_map(|heap| Some(heap.0.first()?.cursor)).min()
    }
}

impl<T, const IN_ORDER: bool> Default for Pending<T, IN_ORDER> {
    fn default() -> Self {
        Self { queues: Vec::new() }
    }
}

impl<T> Entry<T> {
    /// Returns the item and all of its points.
    fn taken(mut self, queue: usize) -> (T, Points) {
        self.others
            .insert(Point::new(QueueId(queue as u8), self.cursor));
        (self.item, self.others)
    }
}

/// A binary heap, least cursor first, that also gives access to its last leaf.
#[derive(Debug)]
struct Heap<T>(Vec<Entry<T>>);

impl<T> Default for Heap<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Heap<T> {
    #[inline]
    fn push(&mut self, entry: Entry<T>) {
        self.0.push(entry);
        let mut at = self.0.len() - 1;
        while at > 0 && self.0[(at - 1) / 2].cursor > self.0[at].cursor {
            self.0.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    /// Takes an entry whose cursor has passed: the one with the least cursor if `in_order`.
    #[inline]
    fn pop_if(&mut self, in_order: bool, passed: impl Fn(Cursor) -> bool) -> Option<Entry<T>> {
        // If everything has passed, so has the last leaf, and taking it needs no sifting.
        if !in_order && passed(self.0.last()?.cursor) {
            return self.0.pop();
        }
        if passed(self.0.first()?.cursor) {
            return self.pop_first();
        }
        None
    }

    fn pop_first(&mut self) -> Option<Entry<T>> {
        if self.0.is_empty() {
            return None;
        }
        let first = self.0.swap_remove(0);
        let mut at = 0;
        loop {
            let children = (2 * at + 1)..(2 * at + 3).min(self.0.len());
            let Some(child) = children.min_by_key(|child| self.0[*child].cursor) else {
                break;
            };
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

    fn push(pending: &mut Pending<u32>, queue: QueueId, cursor: Cursor) {
        pending.push(cursor as u32, Point::new(queue, cursor), Points::new());
    }

    #[test]
    fn take_prefers_the_latest_item_of_the_own_queue_and_the_oldest_of_others() {
        let mut pending = Pending::<u32>::default();
        (1..=9).for_each(|cursor| push(&mut pending, A, cursor));
        let all = |_: &u32| true;
        let (item, points) = pending.take(A, |_| true, all).unwrap();
        assert_eq!((item, points), (9, Points::from(Point::new(A, 9))));
        assert_eq!(pending.take(B, |_| true, all).map(|taken| taken.0), Some(1));
        assert!(pending.take(B, |point| point.cursor <= 1, all).is_none());
        assert!(pending.take(A, |_| true, |item| *item == 9).is_none());
    }

    #[test]
    fn pop_passed_takes_exactly_the_items_up_to_the_cursor() {
        let mut pending = Pending::<u32>::default();
        let mut cursors: Vec<Cursor> = (0..200).map(|step| step * 7919 % 211).collect();
        cursors
            .iter()
            .for_each(|cursor| push(&mut pending, B, *cursor));
        cursors.sort_unstable();
        assert_eq!(pending.oldest(B), cursors.first().copied());
        for limit in [20, 100, 300] {
            let pop = || pending.pop_passed(B, |point| point.cursor <= limit);
            let mut passed: Vec<_> = std::iter::from_fn(pop).map(u64::from).collect();
            passed.sort_unstable();
            let (expected, left) =
                cursors.split_at(cursors.partition_point(|cursor| *cursor <= limit));
            assert_eq!(passed, expected);
            cursors = left.to_vec();
        }
        assert!(pending.is_empty() && pending.oldest(B).is_none());
    }

    /// I4: neither memory nor a slot is free before its last use on each queue.
    #[test]
    fn item_waits_for_all_of_its_points_i4() {
        let mut pending = Pending::<u32>::default();
        pending.push(1, Point::new(A, 5), Points::from(Point::new(B, 3)));
        pending.push(2, Point::new(A, 4), Points::new());
        let passed = |a: u64, b: u64| {
            move |point: Point| point.cursor <= if point.queue == A { a } else { b }
        };
        assert_eq!(pending.pop_passed(A, passed(4, 9)), Some(2));
        assert_eq!(pending.pop_passed(A, passed(5, 2)), None);
        assert_eq!((pending.oldest(A), pending.oldest(B)), (None, Some(3)));
        assert_eq!(pending.pop_passed(B, passed(5, 3)), Some(1));
    }

    /// I12: an item does not wait while those that came later leave before it.
    #[test]
    fn items_in_order_leave_by_their_cursors_i12() {
        let mut pending = Pending::<u32, true>::default();
        pending.push(0, Point::new(A, 3), Points::from(Point::new(B, 1)));
        for cursor in [5, 1, 4, 2] {
            pending.push(cursor, Point::new(A, cursor.into()), Points::new());
        }
        let pop = || pending.pop_passed(A, |point| point.cursor <= 4);
        assert_eq!(std::iter::from_fn(pop).collect::<Vec<_>>(), [1, 2, 0, 4]);
        assert_eq!(pending.pop_passed(A, |_| true), Some(5));
    }

    #[test]
    fn item_with_other_points_does_not_hide_one_without() {
        let mut pending = Pending::<u32>::default();
        push(&mut pending, A, 1);
        pending.push(2, Point::new(A, 2), Points::from(Point::new(B, 1)));
        let own = |point: Point| point.queue == A;
        assert_eq!(pending.take(A, own, |_| true).map(|taken| taken.0), Some(1));
        assert!(pending.take(A, own, |_| true).is_none() && !pending.is_empty());
    }
}

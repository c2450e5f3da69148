//! Sets of points: for each queue, the greatest cursor.
//!
//! A queue is ordered, so its greatest cursor stands for all earlier ones. Most ranges are used by one or two queues;
//! those points are stored inline.
//!
//! Invariants: at most one point per queue. Present points are packed at the front; an absent point has cursor 0. A
//! point
//! with cursor 0 has always passed, so it is never stored.

use millstream_protocol::id::{Cursor, MAX_QUEUES, Point, QueueId};

/// An empty place.
const ABSENT: Point = Point {
    queue: QueueId(0),
    cursor: 0,
};

/// Points that are stored inline, without a heap allocation.
const INLINE: usize = 2;

/// A set of points, at most one per queue: what a range of memory, or a wait, must come after.
#[derive(Clone, Debug)]
pub struct Points {
    inline: [Point; INLINE],
    /// The points of further queues; allocated only if there are more than [`INLINE`].
    more: Option<Box<[Point; MAX_QUEUES - INLINE]>>,
}

impl Points {
    /// Creates an empty set.
    #[inline]
    pub fn new() -> Self {
        Self {
            inline: [ABSENT; INLINE],
            more: None,
        }
    }

    /// Adds a point. If the set has a point on that queue, the later of the two stays.
    #[inline]
    pub fn insert(&mut self, point: Point) {
        for mine in &mut self.inline {
            if mine.cursor == 0 {
                *mine = point;
                return;
            }
            if mine.queue == point.queue {
                mine.cursor = mine.cursor.max(point.cursor);
                return;
            }
        }
        if point.cursor != 0 {
            self.insert_more(point);
        }
    }

    #[cold]
    fn insert_more(&mut self, point: Point) {
        let more = self
            .more
            .get_or_insert_with(|| Box::new([ABSENT; MAX_QUEUES - INLINE]));
        let place = more
            .iter_mut()
            .find(|mine| mine.cursor == 0 || mine.queue == point.queue);
        debug_assert!(place.is_some(), "there is a place for every queue");
        if let Some(mine) = place {
            *mine = Point {
                queue: point.queue,
                cursor: mine.cursor.max(point.cursor),
            };
        }
    }

    /// Adds all points of `other`.
    #[inline]
    pub fn union(&mut self, other: &Points) {
        for point in other.iter() {
            self.insert(point);
        }
    }

    /// Returns the cursor of the point on `queue`, if there is one.
    #[inline]
    pub fn on(&self, queue: QueueId) -> Option<Cursor> {
        self.iter()
            .find(|point| point.queue == queue)
            .map(|point| point.cursor)
    }

    /// Returns `true` if the set has a point at or after `point` on the same queue.
    #[inline]
    pub fn covers(&self, point: Point) -> bool {
        self.on(point.queue).unwrap_or(0) >= point.cursor
    }

    /// Returns `true` if `covered` returns `true` for every point. An empty set returns `true`.
    #[inline]
    pub fn all(&self, covered: impl Fn(Point) -> bool) -> bool {
        self.iter().all(covered)
    }

    /// Removes the points that have passed.
    #[inline]
    pub fn retain_open(&mut self, mut passed: impl FnMut(Point) -> bool) {
        let [first, second] = self.inline;
        if self.more.is_none() {
            let keep_first = first.cursor != 0 && !passed(first);
            let keep_second = second.cursor != 0 && !passed(second);
            let kept_second = if keep_second { second } else { ABSENT };
            self.inline = if keep_first {
                [first, kept_second]
            } else {
                [kept_second, ABSENT]
            };
            return;
        }
        let all = std::mem::take(self);
        self.extend(all.iter().filter(|point| !passed(*point)));
    }

    /// Removes a point and returns it.
    #[inline]
    pub fn pop(&mut self) -> Option<Point> {
        if self.more.is_some() {
            return self.pop_more();
        }
        let last = usize::from(self.inline[1].cursor != 0);
        let point = std::mem::replace(&mut self.inline[last], ABSENT);
        (point.cursor != 0).then_some(point)
    }

    #[cold]
    fn pop_more(&mut self) -> Option<Point> {
        let more = self.more.as_mut()?;
        let last = more.iter().rposition(|point| point.cursor != 0)?;
        let point = std::mem::replace(&mut more[last], ABSENT);
        if last == 0 {
            self.more = None;
        }
        Some(point)
    }

    /// Returns the point, if there is exactly one.
    #[inline]
    pub fn only(&self) -> Option<Point> {
        let [first, second] = self.inline;
        (first.cursor != 0 && second.cursor == 0).then_some(first)
    }

    /// Iterates over the points, in no particular order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Point> + '_ {
        let more = self.more.iter().flat_map(|more| more.iter());
        self.inline
            .iter()
            .chain(more)
            .copied()
            .take_while(|point| point.cursor != 0)
    }

    /// Returns the number of points.
    #[inline]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Returns `true` if the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.inline[0].cursor == 0
    }

    /// Removes all points.
    #[inline]
    pub fn clear(&mut self) {
        *self = Self::new();
    }
}

impl Default for Points {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl From<Point> for Points {
    #[inline]
    fn from(point: Point) -> Self {
        Self {
            inline: [point, ABSENT],
            more: None,
        }
    }
}

impl FromIterator<Point> for Points {
    #[inline]
    fn from_iter<I: IntoIterator<Item = Point>>(iter: I) -> Self {
        let mut points = Self::new();
        points.extend(iter);
        points
    }
}

impl Extend<Point> for Points {
    #[inline]
    fn extend<I: IntoIterator<Item = Point>>(&mut self, iter: I) {
        for point in iter {
            self.insert(point);
        }
    }
}

impl PartialEq for Points {
    /// Compares as sets: the order of insertion does not matter.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self
                .iter()
                .all(|point| other.on(point.queue) == Some(point.cursor))
    }
}

impl Eq for Points {}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(queue: u8, cursor: Cursor) -> Point {
        Point::new(QueueId(queue), cursor)
    }

    #[test]
    fn insert_keeps_the_latest_point_of_each_queue() {
        let points: Points = [point(0, 4), point(1, 2), point(0, 9), point(0, 7)]
            .into_iter()
            .collect();
        assert_eq!(points.len(), 2);
        assert_eq!(points.on(QueueId(0)), Some(9));
        assert!(
            points.covers(point(0, 8))
                && !points.covers(point(1, 3))
                && !points.covers(point(2, 1))
        );
    }

    #[test]
    fn union_keeps_one_point_per_queue_in_any_order() {
        let mut left = Points::from(point(0, 4));
        left.union(&[point(1, 1), point(0, 2)].into_iter().collect());
        assert_eq!(left, [point(1, 1), point(0, 4)].into_iter().collect());
        assert_ne!(left, Points::from(point(0, 4)));
    }

    #[test]
    fn retain_open_removes_passed_points() {
        let mut points: Points = (0..6)
            .map(|queue| point(queue, u64::from(queue) + 1))
            .collect();
        points.retain_open(|point| point.cursor <= 3);
        assert_eq!(
            points,
            (3..6)
                .map(|queue| point(queue, u64::from(queue) + 1))
                .collect()
        );
        assert!(points.all(|point| point.cursor > 3) && Points::new().all(|_| false));
    }

    #[test]
    fn set_of_two_points_is_inline_and_at_most_40_bytes() {
        let points: Points = [point(0, 1), point(1, 1)].into_iter().collect();
        assert!(points.more.is_none());
        assert!(size_of::<Points>() <= 40);
    }

    #[test]
    fn set_holds_a_point_of_every_queue() {
        let all = || (0..MAX_QUEUES as u8).map(|queue| point(queue, u64::from(queue) + 1));
        let mut points: Points = all().chain(all()).collect();
        assert_eq!(
            (points.len(), points.on(QueueId(15))),
            (MAX_QUEUES, Some(16))
        );
        let mut popped: Vec<_> = std::iter::from_fn(|| points.pop()).collect();
        popped.sort_unstable();
        assert_eq!(popped, all().collect::<Vec<_>>());
        assert!(points.is_empty() && points.more.is_none());
    }

    #[test]
    fn point_with_cursor_zero_is_never_stored() {
        let mut points: Points = (0..5).map(|queue| point(queue, 0)).collect();
        assert!(points.is_empty() && points.covers(point(3, 0)));
        points.extend([point(1, 1), point(2, 1), point(3, 0), point(1, 0)]);
        assert_eq!((points.len(), points.on(QueueId(1))), (2, Some(1)));
    }
}

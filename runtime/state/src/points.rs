//! Sets of points: for each queue, the greatest cursor.
//!
//! A queue is ordered, so its greatest cursor stands for all earlier ones (I3). Most sets have one or two points; those
//! are stored inline.
//!
//! Invariants: at most one point per queue, in the order of the queues. A point with cursor 0 has always passed, so it
//! is never stored.

use millstream_protocol::Point;
use smallvec::SmallVec;

/// A set of points, at most one per queue: what a range of memory, or a task, must come after.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Points(SmallVec<[Point; 2]>);

impl Points {
    /// Creates an empty set.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a point. If the set has a point on that queue, the later of the two stays.
    #[inline]
    pub fn insert(&mut self, point: Point) {
        let index = self.0.iter().position(|mine| mine.queue >= point.queue);
        match index.and_then(|index| self.0.get_mut(index)) {
            Some(mine) if mine.queue == point.queue => mine.cursor = mine.cursor.max(point.cursor),
            _ if point.cursor == 0 => {}
            _ => self.0.insert(index.unwrap_or(self.0.len()), point),
        }
    }

    /// Removes the points that have passed.
    #[inline]
    pub fn retain_open(&mut self, mut passed: impl FnMut(Point) -> bool) {
        self.0.retain(|point| !passed(*point));
    }

    /// Removes a point and returns it.
    #[inline]
    pub fn pop(&mut self) -> Option<Point> {
        self.0.pop()
    }

    /// Iterates over the points, by queue.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Point> + '_ {
        self.0.iter().copied()
    }

    /// Returns the number of points.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all points.
    #[inline]
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl From<Point> for Points {
    #[inline]
    fn from(point: Point) -> Self {
        Self::from_iter([point])
    }
}

impl FromIterator<Point> for Points {
    #[inline]
    fn from_iter<I: IntoIterator<Item = Point>>(iter: I) -> Self {
        let mut points = Self::new();
        iter.into_iter().for_each(|point| points.insert(point));
        points
    }
}

#[cfg(test)]
mod tests {
    use millstream_protocol::{Cursor, MAX_QUEUES, QueueId};

    use super::*;

    fn point(queue: u8, cursor: Cursor) -> Point {
        Point::new(QueueId(queue), cursor)
    }

    #[test]
    fn insert_keeps_the_latest_point_of_each_queue_in_any_order() {
        let points: Points = [point(1, 2), point(0, 4), point(0, 9), point(0, 7)]
            .into_iter()
            .collect();
        assert_eq!(points.len(), 2);
        assert_eq!(points, [point(0, 9), point(1, 2)].into_iter().collect());
        assert_ne!(points, Points::from(point(0, 9)));
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
    }

    #[test]
    fn set_of_two_points_is_inline_and_at_most_40_bytes() {
        let points: Points = [point(0, 1), point(1, 1)].into_iter().collect();
        assert!(!points.0.spilled());
        assert!(size_of::<Points>() <= 40);
    }

    #[test]
    fn set_holds_a_point_of_every_queue() {
        let all = || (0..MAX_QUEUES as u8).map(|queue| point(queue, u64::from(queue) + 1));
        let mut points: Points = all().rev().chain(all()).collect();
        assert_eq!(points.len(), MAX_QUEUES);
        let mut popped: Vec<_> = std::iter::from_fn(|| points.pop()).collect();
        popped.sort_unstable();
        assert_eq!(popped, all().collect::<Vec<_>>());
        assert!(points.is_empty());
    }

    #[test]
    fn point_with_cursor_zero_is_never_stored() {
        let mut points: Points = (0..5).map(|queue| point(queue, 0)).collect();
        assert!(points.is_empty());
        for point in [point(1, 1), point(2, 1), point(3, 0), point(1, 0)] {
            points.insert(point);
        }
        assert_eq!(points, [point(1, 1), point(2, 1)].into_iter().collect());
    }
}

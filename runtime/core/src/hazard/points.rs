//! Points that still use a range: the greatest cursor of each queue.
//!
//! A queue is ordered, so its greatest cursor stands for all earlier ones. Nearly every range is
//! used by one or two queues; those need no heap. Invariant: at most one point per queue.

use smallvec::SmallVec;

use crate::id::{Cursor, Point, QueueId};

/// Points that a range, or a wait, comes after: at most one per queue.
#[derive(Clone, Default, Debug)]
pub struct Points(SmallVec<[Point; 2]>);

impl Points {
    /// No points.
    #[inline]
    pub fn new() -> Self {
        Self(SmallVec::new())
    }

    /// Adds a point; of two on one queue the later one stays.
    #[inline]
    pub fn insert(&mut self, point: Point) {
        match self.0.iter_mut().find(|mine| mine.queue == point.queue) {
            Some(mine) => mine.cursor = mine.cursor.max(point.cursor),
            None => self.0.push(point),
        }
    }

    /// Adds all points of `other`.
    pub fn union(&mut self, other: &Points) {
        for point in other.iter() {
            self.insert(point);
        }
    }

    /// The point on `queue`, if there is one.
    #[inline]
    pub fn on(&self, queue: QueueId) -> Option<Cursor> {
        self.0
            .iter()
            .find(|point| point.queue == queue)
            .map(|point| point.cursor)
    }

    /// Does a point here come at or after `point` on its queue?
    #[inline]
    pub fn covers(&self, point: Point) -> bool {
        self.on(point.queue)
            .is_some_and(|cursor| cursor >= point.cursor)
    }

    /// Does `covered` hold for every point? True if there is none.
    #[inline]
    pub fn all(&self, covered: impl Fn(Point) -> bool) -> bool {
        self.iter().all(covered)
    }

    /// Keeps the points that have not passed.
    #[inline]
    pub fn retain_open(&mut self, mut passed: impl FnMut(Point) -> bool) {
        self.0.retain(|point| !passed(*point));
    }

    /// Takes one point out.
    #[inline]
    pub fn pop(&mut self) -> Option<Point> {
        self.0.pop()
    }

    /// The points, in no order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Point> + '_ {
        self.0.iter().copied()
    }

    /// How many points there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Is there no point?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets all points.
    #[inline]
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl From<Point> for Points {
    #[inline]
    fn from(point: Point) -> Self {
        let mut points = Self::new();
        points.0.push(point);
        points
    }
}

impl FromIterator<Point> for Points {
    fn from_iter<I: IntoIterator<Item = Point>>(iter: I) -> Self {
        let mut points = Self::new();
        points.extend(iter);
        points
    }
}

impl Extend<Point> for Points {
    fn extend<I: IntoIterator<Item = Point>>(&mut self, iter: I) {
        for point in iter {
            self.insert(point);
        }
    }
}

impl PartialEq for Points {
    /// Equal as sets: the order of insertion does not count.
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
    fn the_latest_point_of_a_queue_stands_for_all() {
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
    fn a_union_is_a_set() {
        let mut left = Points::from(point(0, 4));
        left.union(&[point(1, 1), point(0, 2)].into_iter().collect());
        assert_eq!(left, [point(1, 1), point(0, 4)].into_iter().collect());
        assert_ne!(left, Points::from(point(0, 4)));
    }

    #[test]
    fn passed_points_go() {
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
    fn two_points_need_no_heap_and_forty_bytes() {
        let points: Points = [point(0, 1), point(1, 1)].into_iter().collect();
        assert!(!points.0.spilled());
        assert!(size_of::<Points>() <= 40);
    }
}

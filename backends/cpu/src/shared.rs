//! State that the workers of a device share: the timelines that they wait for, and the stop flag.

use std::sync::Arc;

use millstream_protocol::Point;
use millstream_sync::facade::SpinPolicy;
use millstream_sync::facade::atomic::{AtomicBool, Ordering};
use millstream_sync::timeline::Timeline;

/// State that the workers of a device share.
pub(crate) struct Shared {
    /// The timelines of all queues, for waits between queues.
    pub(crate) timelines: Box<[Arc<Timeline>]>,
    /// The device is closing: workers end after their current task.
    pub(crate) stop: AtomicBool,
    /// How long workers spin before they park.
    pub(crate) spin: SpinPolicy,
}

impl Shared {
    pub(crate) fn is_stopping(&self) -> bool {
        // Acquire: pairs with the store in `stop`. The gates make a sleeping worker load it again.
        self.stop.load(Ordering::Acquire)
    }

    /// Makes the workers end. Ending the timelines wakes workers that wait for another queue.
    pub(crate) fn stop(&self) {
        // Release: pairs with the load in `is_stopping`.
        self.stop.store(true, Ordering::Release);
        self.timelines.iter().for_each(|timeline| timeline.end());
    }

    /// Returns `true` if all points have passed.
    #[inline]
    pub(crate) fn have_passed(&self, points: &[Point]) -> bool {
        points.iter().all(|point| self.has_passed(*point))
    }

    /// Returns `true` if the point has passed. A queue that does not exist has nothing to wait for.
    pub(crate) fn has_passed(&self, point: Point) -> bool {
        match self.timelines.get(point.queue.index()) {
            Some(timeline) => timeline.completed() >= point.cursor,
            None => true,
        }
    }
}

//! What the workers of a device share: the timelines that they wait for, and the word to end.

use std::sync::Arc;

use millstream_protocol::id::Point;
use millstream_sync::facade::SpinPolicy;
use millstream_sync::facade::atomic::{AtomicBool, Ordering};
use millstream_sync::timeline::Timeline;

/// What the workers of a device share.
pub(crate) struct Shared {
    /// The timelines of all queues, for waits.
    pub(crate) timelines: Box<[Arc<Timeline>]>,
    /// The device goes away: workers end after the task that they are in.
    pub(crate) stop: AtomicBool,
    /// How long workers spin before they park.
    pub(crate) spin: SpinPolicy,
}

impl Shared {
    pub(crate) fn is_stopping(&self) -> bool {
        // Acquire: pairs with `stop`. That a sleeping worker sees it is the gates' matter.
        self.stop.load(Ordering::Acquire)
    }

    /// Tells the workers to end; those that wait for another queue are told by the end of its timeline.
    pub(crate) fn stop(&self) {
        // Release: pairs with `is_stopping`.
        self.stop.store(true, Ordering::Release);
        self.timelines.iter().for_each(|timeline| timeline.end());
    }

    /// Has the point passed? A queue that does not exist has nothing to wait for.
    pub(crate) fn has_passed(&self, point: Point) -> bool {
        match self.timelines.get(point.queue.index()) {
            Some(timeline) => timeline.completed() >= point.cursor,
            None => true,
        }
    }
}

//! A task that a stream holds: what the conductor and the scheduler pass to each other.

use millstream_protocol::id::Point;
use millstream_protocol::message::{Op, Task};
use smallvec::SmallVec;

use crate::objects::NO_OBJECT;

/// A task that a stream holds.
pub(crate) struct HeldTask {
    pub(crate) task: Task,
    /// Points on other queues that it must come after, at most one a queue.
    pub(crate) after: SmallVec<[Point; 1]>,
    /// Tasks of other streams, by stream and sequence, that it must come after and that are not issued yet. They
    /// will turn into points. Each edge leads to an earlier mailbox position, so there is no cycle. The reverse of
    /// each is a [`Waiter`](super::actor::Waiter) of the other stream.
    pub(crate) awaits: SmallVec<[(u32, u64); 1]>,
    /// The key of the kernel or recording that it names, if it names one.
    pub(crate) object: u32,
    /// Did its sender take credit of the stream for it?
    pub(crate) paid: bool,
    /// When it was admitted, if its latency is sampled; else 0.
    pub(crate) admitted_ns: u64,
}

impl HeldTask {
    pub(crate) fn empty() -> Box<Self> {
        Box::new(Self {
            task: Task::new(None, Op::Taken),
            after: SmallVec::new(),
            awaits: SmallVec::new(),
            object: NO_OBJECT,
            paid: true,
            admitted_ns: 0,
        })
    }

    /// The task comes after `point`.
    #[inline]
    pub(crate) fn come_after(&mut self, point: Point) {
        if !joins(&mut self.after, point) {
            self.after.push(point);
        }
    }
}

/// One more point to come after. Does it join one of the same queue? The latest of each queue stands for the earlier ones (I3).
pub(crate) fn joins(after: &mut [Point], point: Point) -> bool {
    match after.iter_mut().find(|other| other.queue == point.queue) {
        Some(other) => {
            other.cursor = other.cursor.max(point.cursor);
            true
        }
        None => false,
    }
}

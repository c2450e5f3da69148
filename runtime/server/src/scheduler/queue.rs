//! A physical queue as the server sees it: how far it was issued and how far it is.

use std::sync::Arc;

use millstream_protocol::id::Cursor;
use millstream_protocol::priority::Priority;
use millstream_sync::timeline::Timeline;

use crate::scheduler::turns::Turns;

/// One queue of the device.
pub(crate) struct QueueState {
    pub(super) timeline: Arc<Timeline>,
    /// Cursor of the last issued task.
    pub(super) issued: Cursor,
    /// Cursor up to which batches were ended.
    pub(super) flushed: Cursor,
    /// Progress, as of the last look.
    pub(super) completed: Cursor,
    /// Progress whose consequences (memory, slots, host functions) were drawn.
    pub(super) taken_up: Cursor,
    /// Tasks that streams which sit here hold.
    pub(super) held: u64,
    pub(super) turn: Turns,
    /// The priority that the device gives it, where it gives any.
    serves: Option<Priority>,
    /// Streams that sit here.
    pub(super) streams: u32,
    /// The same by their clients' priority.
    pub(super) streams_by: [u32; 3],
    /// Issuing stopped because enough is in flight.
    pub(super) full: bool,
}

impl QueueState {
    pub(crate) fn new(timeline: Arc<Timeline>, serves: Option<Priority>) -> Self {
        Self {
            timeline,
            serves,
            issued: 0,
            flushed: 0,
            completed: 0,
            taken_up: 0,
            held: 0,
            turn: Turns::default(),
            streams: 0,
            streams_by: [0; 3],
            full: false,
        }
    }

    /// Cursor of the last issued task.
    #[inline(always)]
    pub(crate) fn issued(&self) -> Cursor {
        self.issued
    }

    /// Progress, as of the last look.
    #[inline(always)]
    pub(crate) fn completed(&self) -> Cursor {
        self.completed
    }

    /// Tasks that the device has and that have not completed, as of the last look.
    #[inline]
    pub(crate) fn in_flight(&self) -> u64 {
        self.issued - self.completed
    }

    /// A stream sits down.
    pub(super) fn seat(&mut self, priority: Priority) {
        self.streams += 1;
        self.streams_by[priority as usize] += 1;
    }

    /// A stream gets up.
    pub(super) fn unseat(&mut self, priority: Priority) {
        self.streams -= 1;
        self.streams_by[priority as usize] -= 1;
    }

    /// How badly it suits streams of this priority: not at all (0) if it is theirs on the device, more if streams of
    /// another sit here, most if it is another's.
    pub(super) fn misfit(&self, priority: Priority) -> u8 {
        match self.serves {
            Some(serves) if serves == priority => 0,
            Some(_) => 3,
            None => 1 + u8::from(self.streams > self.streams_by[priority as usize]),
        }
    }

    /// Looks at the progress again.
    #[inline]
    pub(super) fn look(&mut self) {
        let completed = self.timeline.completed().min(self.issued);
        self.completed = self.completed.max(completed);
    }
}

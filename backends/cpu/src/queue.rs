//! The two ends of a queue: a ring of entries, and an overflow behind it.
//!
//! The server keeps fewer tasks in flight than the ring holds, but waits and the tasks of recordings are added to
//! them. So a full ring neither blocks the device thread nor loses entries: they go to the overflow
//! ([`millstream_sync::overflow`]).

use std::mem::MaybeUninit;

use millstream_protocol::id::Cursor;
use millstream_sync::overflow;

use crate::entry::Entry;

/// The device thread's end.
pub(crate) struct Feed(overflow::Feed<Entry>);

/// The runner's end.
pub(crate) type Inbox = overflow::Inbox<Entry>;

/// Creates a queue whose ring holds `capacity` entries.
pub(crate) fn queue(capacity: usize) -> (Feed, Inbox) {
    let (feed, inbox) = overflow::queue(capacity);
    (Feed(feed), inbox)
}

impl Feed {
    /// Appends the entry that `build` makes from an empty one. Wakes the runner, unless the caller does so later or
    /// runs the entry itself. `build` runs once. Never waits.
    #[inline]
    pub(crate) fn push(
        &mut self,
        cursor: Cursor,
        wakes_later: bool,
        mut build: impl FnMut(&mut Entry),
    ) {
        let write = |slot: &mut MaybeUninit<Entry>| build(Entry::init(slot, cursor));
        // SAFETY: `Entry::init` initializes the slot.
        unsafe { self.0.push_unless(write, || wakes_later) };
    }

    /// Wakes the runner, which looks at the queue again.
    pub(crate) fn wake(&self) {
        self.0.wake();
    }
}

//! The answer to a sync over several streams whose tasks could not all be issued at once.
//!
//! Each of these streams carries one part, as a task in its own order. The part that is issued last sends the answer,
//! so a sync needs no thread: neither its parts nor its answer run user code. If a part is dropped (the device is lost
//! or closed), no answer can be sent, and dropping the last part drops the sender, which is an answer too (I5).
//!
//! If the parts were host functions, blocked host functions of other clients would hold up the answer.

use millstream_sync::facade::{Mutex, lock};

use super::{Reply, Ticket};
use crate::id::Point;

/// What the parts of one sync share.
pub struct SyncParts(Mutex<Option<Missing>>);

struct Missing {
    reply: Reply,
    ticket: Ticket,
    /// The number of parts that were not issued.
    parts: usize,
}

impl SyncParts {
    /// Creates the answer of `parts` parts. `ticket` has the points of what was issued before.
    pub fn new(reply: Reply, ticket: Ticket, parts: usize) -> Self {
        Self(Mutex::new(Some(Missing {
            reply,
            ticket,
            parts,
        })))
    }

    /// Notes that a part was issued and ends at `point`. Returns the reply and its ticket if no part is missing any
    /// more.
    pub fn issued(&self, point: Point) -> Option<(Reply, Ticket)> {
        let mut place = lock(&self.0);
        let mut missing = place.take()?;
        let points = &mut missing.ticket.points;
        match points.iter_mut().find(|other| other.queue == point.queue) {
            Some(other) => other.cursor = other.cursor.max(point.cursor),
            None => points.push(point),
        }
        missing.parts -= 1;
        if missing.parts == 0 {
            return Some((missing.reply, missing.ticket));
        }
        *place = Some(missing);
        None
    }
}

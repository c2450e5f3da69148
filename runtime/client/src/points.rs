//! Moments of a stream: points that other streams wait for, and values that are dropped then.

use millstream_protocol::access::Access;
use millstream_protocol::error::Error;
use millstream_protocol::message::Op;

use crate::handle::Handle;
use crate::{Returned, Room, Stream};

/// A moment of a stream, for other streams to wait for.
#[derive(Clone, Debug)]
pub struct StreamPoint {
    pub(crate) handle: Handle<u8>,
}

impl Stream {
    /// A point that passes once everything added to the stream so far has completed. May wait for room in
    /// the mailbox.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn point(&self) -> Result<StreamPoint, Error> {
        // A point is a slice of one byte without memory that the stream writes: hazards do the rest.
        let handle = Handle::<u8>::whole(self.reserve_bytes(self.waits(), 1, None)?, 1);
        let binding = handle.binding(Access::Write);
        self.submit(self.waits(), Op::Mark, |task| task.push_binding(binding))?;
        Ok(StreamPoint { handle })
    }

    /// Everything added to this stream from here on comes after `point`. Costs nothing where the
    /// order is known already. May wait for room in the mailbox.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Closed`].
    pub fn wait_for(&self, point: &StreamPoint) -> Result<(), Error> {
        self.own(&point.handle)?;
        let binding = point.handle.binding(Access::Read);
        self.submit(self.waits(), Op::Mark, |task| task.push_binding(binding))
    }

    /// Drops `value`, on the GC thread, once everything added to the stream so far has completed. May wait
    /// for room in the mailbox, or while the client has
    /// [`max_jobs`](millstream_protocol::options::DeviceOptions::max_jobs) values, host functions and callbacks on their way.
    /// The device has one GC thread: a slow destructor delays those of every client. On a driven device a thread that pumps drops the value,
    /// within its budget and outside of the device.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::NoRoomHere`]; through [`Stream::nowait`] also [`Error::Busy`]. The
    /// value comes back with it: it was not dropped.
    pub fn drop_after<V: Send + 'static>(&self, value: V) -> Result<(), Returned<V>> {
        let wait = self.waits();
        let begun = self.known().and_then(|stream| {
            let room = self.job_room(wait)?;
            self.pay(wait)?;
            Ok((stream, room, self.slot(wait)?))
        });
        match begun {
            Ok((stream, room, slot)) => {
                let kept = Kept {
                    _value: value,
                    _room: room,
                };
                slot.begin(Some(stream), Op::DropAfter(Box::new(kept)))
                    .send();
                Ok(())
            }
            Err(error) => Err(Returned { value, error }),
        }
    }
}

/// A value that is to be dropped, and then the room that it takes.
struct Kept<V> {
    _value: V,
    _room: Room,
}

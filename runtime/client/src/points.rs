//! Points of a stream, which other streams wait for, and deferred drops of values.
//!
//! A point is a slice of one byte without memory: `point` adds a task that writes it, and `wait_for` one that reads
//! it. So the hazards order both streams, also while one of them is parked, skip a wait that a clock implies, and
//! release the slot. A mechanism of its own would need each of these again. A point costs one slot and two messages.

use millstream_protocol::{Access, Error, Op};

use crate::handle::Handle;
use crate::{Permit, Returned, Stream};

/// A point of a stream that other streams can wait for.
#[derive(Clone, Debug)]
pub struct StreamPoint {
    pub(crate) handle: Handle<u8>,
}

impl Stream {
    /// Creates a point that passes once all tasks added to the stream so far have completed. May block while
    /// the mailbox is full.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn point(&self) -> Result<StreamPoint, Error> {
        // A point is a slice of one byte without memory that the stream writes, so hazards provide the order.
        let room = self.room_for(2)?;
        let point = self.new_point(1)?;
        let binding = point.binding();
        let hold = self.submit_two(
            room,
            point,
            (),
            |()| Op::Mark,
            |task| task.push_binding(binding),
        )?;
        let handle = Handle::<u8>::new(hold, 1);
        Ok(StreamPoint { handle })
    }

    /// Orders all tasks added to this stream from now on after `point`. Costs nothing if the
    /// order is implied already. May block while the mailbox is full.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Closed`].
    pub fn wait_for(&self, point: &StreamPoint) -> Result<(), Error> {
        self.check_handle(&point.handle)?;
        let binding = point.handle.binding(Access::Read);
        self.submit(Op::Mark, |task| task.push_binding(binding))
    }

    /// Drops `value` on the GC thread once all tasks added to the stream so far have completed. May block while the
    /// mailbox is full, or while the client has [`max_jobs`](millstream_protocol::DeviceOptions::max_jobs)
    /// values, host functions and callbacks in flight. The device has one GC thread, so a slow destructor delays the
    /// drops of every client. On a driven device a thread that pumps drops the value, within its budget and outside the
    /// device.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::NoRoomHere`]; through [`Stream::nowait`] also [`Error::Busy`]. The
    /// error carries the value, which was not dropped.
    pub fn drop_after<V: Send + 'static>(&self, value: V) -> Result<(), Returned<V>> {
        match self.job_permit() {
            Ok(permit) => {
                let op = |(value, permit)| {
                    Op::DropAfter(Box::new(DeferredDrop {
                        _value: value,
                        _permit: permit,
                    }))
                };
                self.submit_value((value, permit), op, |_| {})
                    .map_err(|returned| returned.map(|(value, _permit)| value))
            }
            Err(error) => Err(Returned { value, error }),
        }
    }
}

/// A value to drop later, and the permit that is released after it.
struct DeferredDrop<V> {
    _value: V,
    _permit: Permit,
}

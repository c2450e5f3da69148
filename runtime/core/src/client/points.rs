//! Moments of a stream: points that other streams wait for, and values that are dropped then.

use crate::access::Access;
use crate::client::Stream;
use crate::error::Error;
use crate::handle::Handle;
use crate::message::Op;

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
    /// for room in the mailbox.
    ///
    /// # Errors
    /// [`Error::Closed`]; the value is dropped at once then.
    pub fn drop_after<V: Send + 'static>(&self, value: V) -> Result<(), Error> {
        self.submit(self.waits(), Op::DropAfter(Box::new(value)), |_| {})
    }
}

//! A client's calls that concern streams: making one, and flushing several.

use millstream_protocol::error::Error;
use millstream_protocol::message::Scope;

use crate::{ComputeClient, Stream};

impl ComputeClient {
    /// Creates a stream. Costs one message and no thread; thousands of streams are fine.
    ///
    /// May block while the mailbox is full, or while no slot is free
    /// ([`max_handles`](millstream_protocol::options::DeviceOptions::max_handles)). If the device is closed, the
    /// stream's calls return the error.
    pub fn new_stream(&self) -> Stream {
        Stream::new(self.clone())
    }

    /// Submits the tasks that these streams hold. Duplicates have no effect.
    ///
    /// May block while the mailbox is full.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn flush<'a>(&self, streams: impl IntoIterator<Item = &'a Stream>) -> Result<(), Error> {
        let ids = streams.into_iter().filter_map(Stream::id).collect();
        self.device().flush(Scope::Streams(ids))
    }
}

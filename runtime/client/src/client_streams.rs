//! What a client does with streams: it makes them, and submits what several hold.

use millstream_protocol::error::Error;
use millstream_protocol::message::Scope;

use crate::{ComputeClient, Stream};

impl ComputeClient {
    /// A new stream. Costs a message and no thread; thousands are fine.
    ///
    /// May wait for room in the mailbox, or for a slot ([`max_handles`](millstream_protocol::options::DeviceOptions::max_handles)). On a closed device the
    /// stream's calls say so.
    pub fn new_stream(&self) -> Stream {
        Stream::new(self.clone())
    }

    /// Submits what these streams hold. Naming one twice runs nothing twice.
    ///
    /// May wait for room in the mailbox.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn flush<'a>(&self, streams: impl IntoIterator<Item = &'a Stream>) -> Result<(), Error> {
        let ids = streams.into_iter().filter_map(Stream::id).collect();
        self.device().flush(Scope::Streams(ids))
    }
}

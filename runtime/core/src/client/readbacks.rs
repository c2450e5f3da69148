//! A sequence of readbacks, for a consumer that takes them as they come: the frames of a renderer, the
//! batches of a service. Delivered through flume, so that the consumer may be async or not.

use std::sync::Arc;

use crate::client::Stream;
use crate::element::Element;
use crate::error::Error;
use crate::handle::Handle;

use millstream_sync::credit::Credit;

/// One readback with the tag that it was asked with.
#[derive(Debug)]
pub struct Readback<T, Tag> {
    /// What the asker called it: a frame number, a request.
    pub tag: Tag,
    /// The elements, or what went wrong with them.
    pub elements: Result<Vec<T>, Error>,
}

/// Asks for readbacks. Cheap to clone.
pub struct ReadbackSender<T, Tag> {
    sender: flume::Sender<Readback<T, Tag>>,
    room: Arc<Credit>,
}

/// Takes readbacks, in the order in which they complete: for one stream that is the order in which they
/// were asked.
pub struct Readbacks<T, Tag> {
    receiver: flume::Receiver<Readback<T, Tag>>,
    room: Arc<Credit>,
}

/// A sequence of at most `capacity` readbacks that were asked and not taken (at least one).
pub fn readbacks<T: Element, Tag: Send + 'static>(
    capacity: usize,
) -> (ReadbackSender<T, Tag>, Readbacks<T, Tag>) {
    let capacity = capacity.max(1);
    let room = Arc::new(Credit::new(capacity as u64));
    // The credit bounds it: there is room for everything that was asked.
    let (sender, receiver) = flume::bounded(capacity);
    (
        ReadbackSender {
            sender,
            room: room.clone(),
        },
        Readbacks { receiver, room },
    )
}

impl<T: Element, Tag: Send + 'static> ReadbackSender<T, Tag> {
    /// Asks for the elements of `source` as of this place in `stream`. Never waits for the consumer.
    ///
    /// # Errors
    /// [`Error::Busy`] when as many are asked and not taken as the sequence holds.
    pub fn read(&self, stream: &Stream, source: &Handle<T>, tag: Tag) -> Result<(), Error> {
        if self.room.try_acquire(1).is_err() {
            return Err(stream.device().busy(self.room.in_use() as usize));
        }
        let sender = self.sender.clone();
        stream.read(source).on_ready(move |elements| {
            // A consumer that is gone wants nothing.
            let _ = sender.try_send(Readback { tag, elements });
        });
        Ok(())
    }
}

impl<T, Tag> Clone for ReadbackSender<T, Tag> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            room: self.room.clone(),
        }
    }
}

impl<T, Tag> Readbacks<T, Tag> {
    /// The next readback, if one is there. Never blocks.
    pub fn try_next(&self) -> Option<Readback<T, Tag>> {
        self.receiver
            .try_recv()
            .ok()
            .inspect(|_| self.room.release(1))
    }

    /// The next readback. Blocks until there is one; `None` when every sender is gone and all were taken.
    pub fn wait_next(&self) -> Option<Readback<T, Tag>> {
        self.receiver.recv().ok().inspect(|_| self.room.release(1))
    }

    /// The next readback, for async code. `None` as for [`Readbacks::wait_next`].
    pub async fn next(&self) -> Option<Readback<T, Tag>> {
        self.receiver
            .recv_async()
            .await
            .ok()
            .inspect(|_| self.room.release(1))
    }
}

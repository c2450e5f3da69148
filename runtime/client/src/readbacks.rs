//! A sequence of readbacks for a consumer that takes them as they arrive, such as the frames of a renderer or the
//! batches of a service. The consumer may be async or not.
//!
//! The sequence is a channel of answers in the order of their requests. The consumer waits for the first of them as for
//! any other answer, which also drives a driven device.
//!
//! ```text
//!  sender                                       consumer
//!  room: takes 1, or returns Busy
//!  Stream::read_to: an answer
//!  channel: sends the request
//!  arrivals: gives 1 back ────────────────────► arrivals: waits for 1, as a thread or as a task
//!                                               channel: takes the first request, waits for its answer
//!                                               room: gives 1 back
//! ```
//! flume would wake an async receiver under its lock, so no consumer waits at the channel itself: both bounds are
//! [`Credit`]s, which wake after their lock. So a waker may use the sequence (I5). The last sender ends the arrivals, and
//! the consumer ends the room.
//!
//! The consumer has one place in the queue of the arrivals for all its waits. So a future that is dropped or forgotten
//! takes no arrival with it: the next wait goes on with the same place.
//!
//! A forked child leaks its ends of the sequence, whose locks a thread of the parent may have held.

use std::any::Any;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

use millstream_protocol::{
    Error, Full, Stored, VecLanding, block::block_until, marks::is_runtime_thread,
};
use millstream_sync::credit::{Credit, QueuedRequest};

use crate::backpressure::Waited;
use crate::handle::Handle;
use crate::of_process::OfProcess;
use crate::recycled::{FreeList, Recycled};
use crate::{DeviceShared, Pending, Returned, Stream};

/// One readback, with the tag of its request.
#[derive(Debug)]
pub struct Readback<T, Tag> {
    /// The tag that was passed to [`ReadbackSender::read`]: a frame number, a request.
    pub tag: Tag,
    /// The elements, or their failure.
    pub elements: Result<Recycled<T>, Error>,
}

/// A request, and its answer.
type Request<T, Tag> = (Tag, Pending<Vec<T>>);

/// Returns the tag as a number, if it is one, for the submission log to identify the frame of a readback.
fn number_of(tag: &dyn Any) -> Option<u64> {
    let small = tag.downcast_ref::<u32>().map(|tag| u64::from(*tag));
    let whole = tag.downcast_ref::<u64>().copied();
    small
        .or(whole)
        .or_else(|| tag.downcast_ref::<usize>().map(|tag| *tag as u64))
}

/// What the senders and the consumer share, beside the channel.
struct Sequence<T> {
    /// One for each request in the channel.
    arrivals: Arc<Credit>,
    /// One for each readback that may be requested. Ended by the consumer.
    room: Credit,
    free_list: FreeList<T>,
}

/// Requests the readbacks of a sequence. Cheap to clone.
pub struct ReadbackSender<T, Tag>(Arc<OfProcess<Senders<T, Tag>>>);

/// All senders of a sequence. Dropped with the last one.
struct Senders<T, Tag> {
    requests: flume::Sender<Request<T, Tag>>,
    /// For requests that no consumer will take.
    unwanted: flume::Receiver<Request<T, Tag>>,
    sequence: Arc<Sequence<T>>,
}

impl<T, Tag> Drop for Senders<T, Tag> {
    fn drop(&mut self) {
        self.sequence.arrivals.end();
    }
}

/// Receives the readbacks of a sequence, in the order of the requests. A drop discards those that were not taken.
pub struct Readbacks<T, Tag>(OfProcess<Consumer<T, Tag>>);

struct Consumer<T, Tag> {
    requests: flume::Receiver<Request<T, Tag>>,
    sequence: Arc<Sequence<T>>,
    /// The consumer's place in the queue of the arrivals.
    arrival: QueuedRequest<Arc<Credit>>,
    /// The request that is answered next, once it was received.
    first: Option<Request<T, Tag>>,
    /// The device of the last request that was received.
    device: Weak<DeviceShared>,
}

impl<T, Tag> Drop for Consumer<T, Tag> {
    fn drop(&mut self) {
        // Senders are refused from here on, also by the tags that are dropped below.
        self.sequence.room.end();
        // The channel would keep the requests as long as there are senders.
        self.requests.drain().for_each(drop);
    }
}

/// Creates a sequence of readbacks. At most `capacity` (at least 1) are requested and not yet taken.
///
/// ```
/// # fn frames(stream: &millstream_client::Stream, image: &millstream_client::handle::Handle<u8>) -> Result<(), millstream_protocol::Error> {
/// let (sender, mut frames) = millstream_client::readbacks::<u8, u32>(3);
/// sender.read(stream, image, 1)?; // the image as of frame 1
/// if let Some(frame) = frames.try_next() {
///     println!("frame {} has {} bytes", frame.tag, frame.elements?.len());
/// }
/// # Ok(())
/// # }
/// ```
pub fn readbacks<T: Stored, Tag: Send + 'static>(
    capacity: usize,
) -> (ReadbackSender<T, Tag>, Readbacks<T, Tag>) {
    let capacity = capacity.max(1);
    let arrivals = Arc::new(Credit::new(capacity as u64));
    // None has arrived.
    let _ = arrivals.try_acquire(arrivals.limit());
    let (sender, receiver) = flume::unbounded();
    let sequence = Arc::new(Sequence {
        arrivals,
        room: Credit::new(capacity as u64),
        free_list: FreeList::new(capacity),
    });
    let senders = Senders {
        requests: sender,
        unwanted: receiver.clone(),
        sequence: sequence.clone(),
    };
    let consumer = Consumer {
        requests: receiver,
        arrival: QueuedRequest::new(sequence.arrivals.clone(), 1),
        sequence,
        first: None,
        device: Weak::new(),
    };
    (
        ReadbackSender(Arc::new(OfProcess::new(senders))),
        Readbacks(OfProcess::new(consumer)),
    )
}

impl<T: Stored, Tag: Send + 'static> ReadbackSender<T, Tag> {
    /// Requests the elements of `source` as of this point of `stream`. Never waits for the consumer. May
    /// block while there is no room for the task. Requests that several threads make at the same time are in any order.
    ///
    /// # Errors
    /// [`Error::Busy`] if the sequence is full, and if a [`Stream::nowait`] has no room for the task;
    /// [`Error::NoRoomHere`] if user code has none; [`Error::NoConsumer`] if the [`Readbacks`] was dropped;
    /// [`Error::Forked`]. The error carries the tag: [`Returned`]. Any other error, such as the end of the device, is
    /// delivered as an item of the sequence.
    pub fn read(&self, stream: &Stream, source: &Handle<T>, tag: Tag) -> Result<(), Returned<Tag>> {
        match self.request(stream, source, number_of(&tag)) {
            Ok(answer) => {
                let senders = &*self.0;
                // Never refused: the senders have a receiver.
                let _ = senders.requests.send((tag, answer));
                senders.sequence.arrivals.release(1);
                // The consumer ends the room before it discards what is left. If this request came later, the channel's
                // lock shows the end here.
                if senders.sequence.room.has_ended() {
                    senders.unwanted.drain().for_each(drop);
                }
                Ok(())
            }
            Err(error) => Err(Returned { value: tag, error }),
        }
    }

    fn request(
        &self,
        stream: &Stream,
        source: &Handle<T>,
        tag: Option<u64>,
    ) -> Result<Pending<Vec<T>>, Error> {
        if self.0.is_forked() {
            // The stream may be of a device that the child opened, but the locks of the sequence are the parent's.
            return Err(Error::Forked);
        }
        let sequence = &self.0.sequence;
        if sequence.room.has_ended() {
            return Err(Error::NoConsumer);
        }
        stream.device().check_process()?;
        sequence.room.try_acquire(1).map_err(|full| Error::Busy {
            what: Full::Readbacks {
                requested: full.in_use,
            },
        })?;
        let landing = VecLanding::within(sequence.free_list.take(), source.len());
        let lent = landing.clone().ok();
        match stream.read_to(source, landing, tag) {
            Err(error @ (Error::Busy { .. } | Error::NoRoomHere { .. })) => {
                sequence.room.release(1);
                let unused = lent.and_then(Arc::into_inner);
                sequence
                    .free_list
                    .put(unused.map_or_else(Vec::new, VecLanding::into_elements));
                Err(error)
            }
            Err(error) => Ok(Pending::failed(stream.requester(), error)),
            sent => sent,
        }
    }
}

impl<T, Tag> Clone for ReadbackSender<T, Tag> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Stored, Tag: Send + 'static> Readbacks<T, Tag> {
    /// Returns the next readback if it has arrived. Never blocks.
    pub fn try_next(&mut self) -> Option<Readback<T, Tag>> {
        if self.0.is_forked() {
            return None;
        }
        let consumer = &mut *self.0;
        if consumer.first.is_none() && consumer.arrival.look().is_ready() {
            consumer.receive();
        }
        let elements = consumer.answer()?.try_take()?;
        consumer.finish(elements)
    }

    /// Blocks until the next readback arrives, and drives its device meanwhile if that is a driven one; before the next
    /// readback is requested, the device of the previous one. Returns `None` if all senders are dropped and all readbacks
    /// are taken, in a child that was forked since, and on a thread that the device needs, if none has arrived.
    pub fn wait_next(&mut self) -> Option<Readback<T, Tag>> {
        if is_runtime_thread() || self.0.is_forked() {
            return self.try_next();
        }
        let consumer = &mut *self.0;
        if consumer.first.is_none() {
            consumer.wait_for_request();
        }
        let elements = consumer.answer()?.wait_until(None)?;
        consumer.finish(elements)
    }

    /// Awaits the next readback. Returns `None` as [`Readbacks::wait_next`] does. Another thread or task must pump a
    /// driven device. The future may be dropped at any time: the next call goes on where it was.
    pub async fn next(&mut self) -> Option<Readback<T, Tag>> {
        if self.0.first.is_none() {
            // At each poll: a child may be forked while the future waits. An error is the end: then the requests that are
            // left come one after the other.
            poll_fn(|context| match self.0.is_forked() {
                true => Poll::Ready(()),
                false => self.0.arrival.poll(context.waker()).map(drop),
            })
            .await;
            if self.0.is_forked() {
                return None;
            }
            self.0.receive();
        }
        if self.0.is_forked() {
            return None;
        }
        let elements = self.0.answer()?.await;
        self.0.finish(elements)
    }
}

impl<T: Stored, Tag: Send + 'static> Consumer<T, Tag> {
    /// Receives the next request, which has arrived, or is left after the end.
    fn receive(&mut self) {
        self.first = self.requests.try_recv().ok();
        if let Some((_, answer)) = &self.first {
            self.device = Arc::downgrade(answer.requester().device());
        }
    }

    /// Returns the answer that comes next.
    fn answer(&mut self) -> Option<&mut Pending<Vec<T>>> {
        self.first.as_mut().map(|(_, answer)| answer)
    }

    /// Hands out the next readback.
    fn finish(&mut self, elements: Result<Vec<T>, Error>) -> Option<Readback<T, Tag>> {
        let (tag, _) = self.first.take()?;
        self.sequence.room.release(1);
        let free_list = &self.sequence.free_list;
        let elements = elements.map(|elements| Recycled::new(elements, free_list));
        Some(Readback { tag, elements })
    }

    /// Blocks until a readback is requested, and receives it. Drives the last device meanwhile, since its callbacks may
    /// request it.
    fn wait_for_request(&mut self) {
        let arrival = &mut self.arrival;
        let is_here = self.device.upgrade().is_some_and(|device| {
            let waited = device.wait_until(None, |waker: &Waker| arrival.poll(waker));
            matches!(waited, Waited::Ready(_))
        });
        if !is_here {
            // An error is the end, as above.
            let _ = block_until(poll_fn(|context| arrival.poll(context.waker())), None);
        }
        self.receive();
    }
}

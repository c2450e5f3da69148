//! A sequence of readbacks, for a consumer that takes them as they come: the frames of a renderer, the
//! batches of a service. Delivered through flume, so that the consumer may be async or not.
//!
//! Answers come from several threads and may overtake each other; the sequence puts them back into the
//! order in which they were asked.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use flume::r#async::RecvFut;
use millstream_protocol::block::block_until;
use millstream_protocol::element::Element;
use millstream_protocol::error::{Error, Full};
use millstream_protocol::marks::{is_runtime_thread, mark_user_code, runs_user_code};
use millstream_sync::credit::Credit;
use millstream_sync::facade::{Mutex, THREADS, lock, try_lock};
use millstream_sync::payload;
use smallvec::SmallVec;

use crate::drives::Drives;
use crate::handle::Handle;
use crate::recycled::{Recycled, Spares};
use crate::{DeviceShared, Pending, Returned, Stream};
use millstream_protocol::landing::VecLanding;

/// One readback with the tag that it was asked with.
#[derive(Debug)]
pub struct Readback<T, Tag> {
    /// What the asker called it: a frame number, a request.
    pub tag: Tag,
    /// The elements, or what went wrong with them.
    pub elements: Result<Recycled<T>, Error>,
}

/// What askers and answers share.
struct Sequence<T, Tag> {
    room: Arc<Credit>,
    sender: flume::Sender<Readback<T, Tag>>,
    drives: Arc<Drives>,
    spares: Arc<Spares<T>>,
    /// How many were asked. Held while one is sent: the number and the place in the stream are taken together. Who holds it waits
    /// for room in the mailbox at most, and runs no user code meanwhile: so user code may wait for it.
    asked: Mutex<u64>,
    /// Not held while one is asked, which may wait for room: who waits on a driven device runs callbacks, and
    /// they deliver.
    order: Mutex<Order<T, Tag>>,
}

struct Order<T, Tag> {
    delivered: u64,
    /// Somebody delivers, outside of the lock, and takes along what others leave in `early`.
    is_delivering: bool,
    /// Answers that overtook an earlier one; at most as many as the sequence holds.
    early: BTreeMap<u64, Readback<T, Tag>>,
}

impl<T, Tag> Sequence<T, Tag> {
    /// One at a time delivers, so that the order holds, and none under the lock: sending wakes consumers and, where
    /// they are gone, drops tags, which is foreign code and may come back here.
    fn deliver(&self, number: u64, readback: Readback<T, Tag>) {
        let mut order = lock(&self.order);
        order.early.insert(number, readback);
        if std::mem::replace(&mut order.is_delivering, true) {
            return;
        }
        while let Some(readback) = order.next() {
            drop(order);
            // There is room: the credit bounds what was asked. A consumer that is gone wants nothing. A panic of
            // foreign code must not keep back what is still to be delivered.
            let sent = catch_unwind(AssertUnwindSafe(|| drop(self.sender.try_send(readback))));
            if let Err(panic) = sent {
                payload::end(panic);
            }
            order = lock(&self.order);
        }
        order.is_delivering = false;
    }
}

impl<T, Tag> Order<T, Tag> {
    /// The next in order, if it is there.
    fn next(&mut self) -> Option<Readback<T, Tag>> {
        let next = self.early.remove(&self.delivered)?;
        self.delivered += 1;
        Some(next)
    }
}

/// A tag as a number, if it is one: so the submission log can tell which frame a readback is of.
fn number_of(tag: &dyn Any) -> Option<u64> {
    let small = tag.downcast_ref::<u32>().map(|tag| u64::from(*tag));
    let whole = tag.downcast_ref::<u64>().copied();
    small
        .or(whole)
        .or_else(|| tag.downcast_ref::<usize>().map(|tag| *tag as u64))
}

/// Asks for readbacks. Cheap to clone.
pub struct ReadbackSender<T, Tag>(Arc<Sequence<T, Tag>>);

/// Takes readbacks, in the order in which they were asked.
pub struct Readbacks<T, Tag> {
    receiver: flume::Receiver<Readback<T, Tag>>,
    room: Arc<Credit>,
    drives: Arc<Drives>,
}

/// A sequence of at most `capacity` readbacks that were asked and not taken (at least one).
///
/// ```
/// # fn frames(stream: &millstream_client::Stream, image: &millstream_client::handle::Handle<u8>) -> Result<(), millstream_protocol::error::Error> {
/// let (sender, frames) = millstream_client::readbacks::<u8, u32>(3);
/// sender.read(stream, image, 1)?; // the image as of frame 1
/// if let Some(frame) = frames.try_next() {
///     println!("frame {} has {} bytes", frame.tag, frame.elements?.len());
/// }
/// # Ok(())
/// # }
/// ```
pub fn readbacks<T: Element, Tag: Send + 'static>(
    capacity: usize,
) -> (ReadbackSender<T, Tag>, Readbacks<T, Tag>) {
    let capacity = capacity.max(1);
    let (room, drives) = (
        Arc::new(Credit::new(capacity as u64)),
        Arc::new(Drives::default()),
    );
    let (sender, receiver) = flume::bounded(capacity);
    let order = Mutex::new(Order {
        delivered: 0,
        is_delivering: false,
        early: BTreeMap::new(),
    });
    let sequence = Sequence {
        room: room.clone(),
        sender,
        drives: drives.clone(),
        spares: Spares::new(capacity),
        asked: Mutex::new(0),
        order,
    };
    (
        ReadbackSender(Arc::new(sequence)),
        Readbacks {
            receiver,
            room,
            drives,
        },
    )
}

impl<T: Element, Tag: Send + 'static> ReadbackSender<T, Tag> {
    /// Asks for the elements of `source` as of this place in `stream`. Never waits for the consumer; may
    /// wait for room in the mailbox.
    ///
    /// # Errors
    /// [`Error::Busy`] when as many are asked and not taken as the sequence holds, and where a [`Stream::nowait`] would wait for room;
    /// [`Error::NoRoomHere`] where user code would; [`Error::NoConsumer`] once the [`Readbacks`] was
    /// dropped; [`Error::WouldDeadlock`] in a kernel, while another thread asks. The tag comes back with it: [`Returned`]. All else,
    /// such as the end of the device, is an item of the sequence.
    pub fn read(&self, stream: &Stream, source: &Handle<T>, tag: Tag) -> Result<(), Returned<Tag>> {
        let sequence = &*self.0;
        if sequence.sender.is_disconnected() {
            let error = Error::NoConsumer;
            return Err(Returned { value: tag, error });
        }
        if sequence.room.try_acquire(1).is_err() {
            let asked = sequence.room.in_use();
            let error = Error::Busy {
                what: Full::Readbacks { asked },
            };
            return Err(Returned { value: tag, error });
        }
        sequence.drives.note(stream.device());
        // What holds the lock may wait for room in the mailbox, which a thread that the device needs must not wait for.
        let mut turn = match is_runtime_thread() && !runs_user_code() {
            true => match try_lock(&sequence.asked) {
                None => {
                    sequence.room.release(1);
                    let error = Error::WouldDeadlock;
                    return Err(Returned { value: tag, error });
                }
                held => held,
            },
            false => None,
        };
        let landing = VecLanding::within(sequence.spares.take(source.len()), source.len());
        let lent = landing.clone().ok();
        let mut alone = None;
        let sent = stream.read_in_turn(source, landing, number_of(&tag), || {
            turn = turn.take().or_else(|| Some(lock(&sequence.asked)));
            // A thread that waits for room on a driven device runs callbacks, and in a model every sender does.
            // They might ask as well, and the lock is held.
            let runs_callbacks = stream.device().channel().is_driven() && !is_runtime_thread();
            alone = (runs_callbacks && (stream.waits() || !THREADS)).then(mark_user_code);
        });
        if let Err(error @ (Error::Busy { .. } | Error::NoRoomHere { .. })) = sent {
            drop(turn);
            sequence.room.release(1);
            let unused = lent
                .and_then(Arc::into_inner)
                .map(VecLanding::into_elements);
            sequence.spares.put(unused.unwrap_or_default());
            return Err(Returned { value: tag, error });
        }
        let answer = sent.unwrap_or_else(|error| Pending::failed(stream.home(), error));
        let mut asked = turn.unwrap_or_else(|| lock(&sequence.asked));
        let number = *asked;
        *asked += 1;
        drop((asked, alone, lent));
        let sequence = self.0.clone();
        // The sequence's own room bounds its callbacks.
        answer.call_back(None, move |elements| {
            let elements = elements.map(|elements| Recycled::new(elements, &sequence.spares));
            sequence.deliver(number, Readback { tag, elements });
        });
        Ok(())
    }
}

impl<T, Tag> Clone for ReadbackSender<T, Tag> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
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

    /// The next readback. Blocks until there is one, and drives driven devices meanwhile; `None` when
    /// every sender is gone and all were taken, and on a thread that the device needs.
    ///
    /// A sequence that several driven devices answer is looked at once a millisecond while it waits.
    pub fn wait_next(&self) -> Option<Readback<T, Tag>> {
        if is_runtime_thread() {
            return self.try_next();
        }
        loop {
            let (devices, noted) = self.drives.look();
            let (mut driven, mut worked) = (SmallVec::<[&DeviceShared; 2]>::new(), false);
            for device in &devices {
                if let Some(has_worked) = device.channel().drive() {
                    driven.push(device);
                    worked |= has_worked;
                }
            }
            if let Some(readback) = self.try_next() {
                return Some(readback);
            }
            if self.receiver.is_disconnected() && self.receiver.is_empty() {
                return None;
            }
            if worked {
                continue;
            }
            let mut news = News {
                readbacks: self,
                next: self.receiver.recv_async(),
                noted,
                key: None,
            };
            let next = match driven.as_slice() {
                [] => block_until(news, None).flatten(),
                [device] => news.rest(device, None),
                // No sleep hears of all of them.
                devices => devices.iter().find_map(|device| {
                    let until = Instant::now() + SEVERAL_EVERY / devices.len() as u32;
                    news.rest(device, Some(until))
                }),
            };
            if let Some(next) = next {
                return next;
            }
        }
    }

    /// The next readback, for async code. `None` as for [`Readbacks::wait_next`]. A driven device must be
    /// pumped by somebody else.
    pub async fn next(&self) -> Option<Readback<T, Tag>> {
        self.receiver
            .recv_async()
            .await
            .ok()
            .inspect(|_| self.room.release(1))
    }
}

/// How often each of several driven devices is looked at.
const SEVERAL_EVERY: Duration = Duration::from_millis(1);

/// The next readback, or nothing if there is another device to drive.
struct News<'a, T, Tag> {
    readbacks: &'a Readbacks<T, Tag>,
    next: RecvFut<'a, Readback<T, Tag>>,
    /// The devices that are known.
    noted: u64,
    /// Where our waker lies.
    key: Option<usize>,
}

impl<T, Tag> Drop for News<'_, T, Tag> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.readbacks.drives.forget(key);
        }
    }
}

impl<T, Tag> News<'_, T, Tag> {
    /// Sleeps until a driven device may do something, or there are news.
    fn rest(
        &mut self,
        device: &DeviceShared,
        until: Option<Instant>,
    ) -> Option<Option<Readback<T, Tag>>> {
        let mut told = None;
        device.channel().rest(until, &mut |waker| {
            match Pin::new(&mut *self).poll(&mut Context::from_waker(waker)) {
                Poll::Ready(news) => told = Some(news),
                Poll::Pending => {}
            }
            told.is_some()
        });
        told.flatten()
    }
}

impl<T, Tag> Future for News<'_, T, Tag> {
    /// The readback, or that the sequence has ended, unless there is another device to drive.
    type Output = Option<Option<Readback<T, Tag>>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(next) = Pin::new(&mut self.next).poll(context) {
            let taken = next.ok().inspect(|_| self.readbacks.room.release(1));
            return Poll::Ready(Some(taken));
        }
        let (drives, noted) = (&self.readbacks.drives, self.noted);
        match drives.has_news(noted, &mut self.key, context.waker()) {
            true => Poll::Ready(None),
            false => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::{Wake, Waker};

    use super::*;

    type Shared = Arc<Sequence<u32, Nosy>>;

    /// A tag whose drop comes back to the sequence that it was in.
    struct Nosy(u64, Shared);

    impl Drop for Nosy {
        fn drop(&mut self) {
            assert!(try_lock(&self.1.order).is_some(), "dropped under the lock");
            assert!(self.0 < 3, "a tag whose drop panics");
        }
    }

    fn readback(of: &Shared, number: u64) -> Readback<u32, Nosy> {
        let (tag, elements) = (Nosy(number, of.clone()), Err(Error::Closed));
        Readback { tag, elements }
    }

    /// Delivers another readback when it is woken, the first time.
    struct Deliverer(Shared, AtomicU64);

    impl Wake for Deliverer {
        fn wake(self: Arc<Self>) {
            assert!(try_lock(&self.0.order).is_some(), "woken under the lock");
            let number = self.1.swap(0, Ordering::Relaxed);
            if number > 0 {
                self.0.deliver(number, readback(&self.0, number));
            }
        }
    }

    /// I5: wakers and tags are foreign code, which may deliver, ask and panic.
    #[test]
    fn no_foreign_code_runs_under_the_lock_of_the_order() {
        let (sender, sequence) = readbacks::<u32, Nosy>(4);
        let shared = &sender.0;
        let waker = Waker::from(Arc::new(Deliverer(shared.clone(), AtomicU64::new(1))));
        let mut next = Box::pin(sequence.next());
        let mut context = Context::from_waker(&waker);
        assert!(next.as_mut().poll(&mut context).is_pending());
        assert_eq!(shared.room.try_acquire(3), Ok(()));
        shared.deliver(2, readback(shared, 2));
        shared.deliver(0, readback(shared, 0));
        drop(next);
        let numbers: Vec<_> = std::iter::from_fn(|| sequence.try_next())
            .map(|readback| readback.tag.0)
            .collect();
        assert_eq!(numbers, [0, 1, 2]);
        drop(sequence);
        shared.deliver(3, readback(shared, 3));
        shared.deliver(4, readback(shared, 4));
        assert_eq!(lock(&shared.order).delivered, 5);
    }
}

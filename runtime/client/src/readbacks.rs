//! A sequence of readbacks for a consumer that takes them as they arrive, such as the frames of a renderer or the
//! batches of a service. Items are delivered through flume, so the consumer may be async or not.
//!
//! Answers complete on several threads and may overtake each other; the sequence delivers them in the
//! order of the requests.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
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

use crate::handle::Handle;
use crate::recycled::{FreeList, Recycled};
use crate::sequence_devices::SequenceDevices;
use crate::{DeviceShared, Pending, Returned, Stream};
use millstream_protocol::landing::VecLanding;

/// One readback, with the tag of its request.
#[derive(Debug)]
pub struct Readback<T, Tag> {
    /// The tag that was passed to [`ReadbackSender::read`]: a frame number, a request.
    pub tag: Tag,
    /// The elements, or their failure.
    pub elements: Result<Recycled<T>, Error>,
}

/// State shared by the senders and the answers of a sequence.
struct Sequence<T, Tag> {
    credit: Arc<Credit>,
    sender: flume::Sender<Readback<T, Tag>>,
    devices: Arc<SequenceDevices>,
    free_list: Arc<FreeList<T>>,
    /// The number of requests. Held while a request is sent, so that its number and its place in the stream agree. The
    /// holder blocks at most for room in the mailbox, and runs no user code meanwhile, so user code may wait for this
    /// lock.
    requests: Mutex<u64>,
    /// Not held while a request is sent: a sender that blocks on a driven device runs callbacks, and
    /// callbacks deliver.
    order: Mutex<Order<T, Tag>>,
}

struct Order<T, Tag> {
    delivered: u64,
    /// A thread delivers, without the lock, and also delivers what other threads add to `early`.
    is_delivering: bool,
    /// Answers that overtook an earlier one; at most the capacity of the sequence.
    early: BTreeMap<u64, Readback<T, Tag>>,
}

impl<T, Tag> Sequence<T, Tag> {
    /// Adds an answer, and delivers all that are next in order. Only one thread delivers at a time, to keep the order,
    /// and it does so without the lock: sending wakes consumers, and drops tags if there is no consumer. Both run
    /// foreign code, which may call this.
    fn deliver(&self, number: u64, readback: Readback<T, Tag>) {
        let mut order = lock(&self.order);
        order.early.insert(number, readback);
        if std::mem::replace(&mut order.is_delivering, true) {
            return;
        }
        while let Some(readback) = order.next() {
            drop(order);
            // There is room, since the credit bounds the requests. Without a consumer the item is dropped. A panic of
            // foreign code must not prevent further deliveries.
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
    /// Takes the next answer in order, if it has arrived.
    fn next(&mut self) -> Option<Readback<T, Tag>> {
        let next = self.early.remove(&self.delivered)?;
        self.delivered += 1;
        Some(next)
    }
}

/// Returns the tag as a number, if it is one, for the submission log to identify the frame of a readback.
fn number_of(tag: &dyn Any) -> Option<u64> {
    let small = tag.downcast_ref::<u32>().map(|tag| u64::from(*tag));
    let whole = tag.downcast_ref::<u64>().copied();
    small
        .or(whole)
        .or_else(|| tag.downcast_ref::<usize>().map(|tag| *tag as u64))
}

/// Requests the readbacks of a sequence. Cheap to clone.
pub struct ReadbackSender<T, Tag>(Arc<Sequence<T, Tag>>);

/// Receives the readbacks of a sequence, in the order of the requests.
pub struct Readbacks<T, Tag> {
    receiver: flume::Receiver<Readback<T, Tag>>,
    credit: Arc<Credit>,
    devices: Arc<SequenceDevices>,
}

/// Creates a sequence of readbacks. At most `capacity` (at least 1) are requested and not yet taken.
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
    let (credit, devices) = (
        Arc::new(Credit::new(capacity as u64)),
        Arc::new(SequenceDevices::default()),
    );
    let (sender, receiver) = flume::bounded(capacity);
    let order = Mutex::new(Order {
        delivered: 0,
        is_delivering: false,
        early: BTreeMap::new(),
    });
    let sequence = Sequence {
        credit: credit.clone(),
        sender,
        devices: devices.clone(),
        free_list: FreeList::new(capacity),
        requests: Mutex::new(0),
        order,
    };
    (
        ReadbackSender(Arc::new(sequence)),
        Readbacks {
            receiver,
            credit,
            devices,
        },
    )
}

impl<T: Element, Tag: Send + 'static> ReadbackSender<T, Tag> {
    /// Requests the elements of `source` as of this point of `stream`. Never waits for the consumer. May
    /// block while there is no room for the task.
    ///
    /// # Errors
    /// [`Error::Busy`] if the sequence is full, and if a [`Stream::nowait`] has no room for the task;
    /// [`Error::NoRoomHere`] if user code has none; [`Error::NoConsumer`] if the [`Readbacks`] was dropped;
    /// [`Error::WouldDeadlock`] in a kernel while another thread sends a request; [`Error::Forked`]. The error carries the tag:
    /// [`Returned`]. Any other error, such as the end of the device, is delivered as an item of the sequence.
    pub fn read(&self, stream: &Stream, source: &Handle<T>, tag: Tag) -> Result<(), Returned<Tag>> {
        let sequence = &*self.0;
        if sequence.sender.is_disconnected() {
            let error = Error::NoConsumer;
            return Err(Returned { value: tag, error });
        }
        if let Err(error) = stream.device().check_process() {
            return Err(Returned { value: tag, error });
        }
        if sequence.credit.try_acquire(1).is_err() {
            let requested = sequence.credit.in_use();
            let error = Error::Busy {
                what: Full::Readbacks { requested },
            };
            return Err(Returned { value: tag, error });
        }
        sequence.devices.add(stream.device());
        // The lock's holder may block for room in the mailbox, which a thread that the device needs must not wait for.
        let mut guard = match is_runtime_thread() && !runs_user_code() {
            true => match try_lock(&sequence.requests) {
                None => {
                    sequence.credit.release(1);
                    let error = Error::WouldDeadlock;
                    return Err(Returned { value: tag, error });
                }
                held => held,
            },
            false => None,
        };
        let landing = VecLanding::within(sequence.free_list.take(source.len()), source.len());
        let lent = landing.clone().ok();
        let mut mark = None;
        let sent = stream.read_with_hook(source, landing, number_of(&tag), || {
            guard = guard.take().or_else(|| Some(lock(&sequence.requests)));
            // A thread that blocks for room on a driven device runs callbacks, and in a model every sender does.
            // A callback may send a request too, which needs the lock that is held here, so none may run.
            let runs_callbacks = stream.device().channel().is_driven() && !is_runtime_thread();
            mark = (runs_callbacks && (stream.waits() || !THREADS)).then(mark_user_code);
        });
        if let Err(error @ (Error::Busy { .. } | Error::NoRoomHere { .. })) = sent {
            drop(guard);
            sequence.credit.release(1);
            let unused = lent
                .and_then(Arc::into_inner)
                .map(VecLanding::into_elements);
            sequence.free_list.put(unused.unwrap_or_default());
            return Err(Returned { value: tag, error });
        }
        let answer = sent.unwrap_or_else(|error| Pending::failed(stream.requester(), error));
        let mut requests = guard.unwrap_or_else(|| lock(&sequence.requests));
        let number = *requests;
        *requests += 1;
        drop((requests, mark, lent));
        let sequence = self.0.clone();
        // The sequence's capacity bounds these callbacks, so they need no permit.
        answer.call_back(None, move |elements| {
            let elements = elements.map(|elements| Recycled::new(elements, &sequence.free_list));
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
    /// Returns the next readback if it has arrived. Never blocks.
    pub fn try_next(&self) -> Option<Readback<T, Tag>> {
        self.receiver
            .try_recv()
            .ok()
            .inspect(|_| self.credit.release(1))
    }

    /// Blocks until the next readback arrives, and drives driven devices meanwhile. Returns `None` if
    /// all senders are dropped and all readbacks are taken, on a thread that the device needs, and in a child that was
    /// forked since, if none has arrived.
    ///
    /// If several driven devices answer the sequence, each is polled once a millisecond.
    pub fn wait_next(&self) -> Option<Readback<T, Tag>> {
        if is_runtime_thread() {
            return self.try_next();
        }
        loop {
            let (devices, added) = self.devices.snapshot();
            if !devices.iter().all(|device| device.is_of_this_process()) {
                return self.try_next();
            }
            let mut driven = SmallVec::<[&DeviceShared; 2]>::new();
            for device in &devices {
                match device.channel().is_driven() {
                    true => driven.push(device),
                    // This thread sleeps elsewhere, below.
                    false => _ = device.channel().wait(None, &mut |_| false),
                }
            }
            if let Some(readback) = self.try_next() {
                return Some(readback);
            }
            if self.receiver.is_disconnected() && self.receiver.is_empty() {
                return None;
            }
            let mut next_or_device = NextOrDevice {
                readbacks: self,
                next: self.receiver.recv_async(),
                added,
                key: None,
            };
            let next = match driven.as_slice() {
                [] => block_until(next_or_device, None).flatten(),
                [device] => next_or_device.wait(device, None),
                // No single sleep is woken by all of them.
                devices => devices.iter().find_map(|device| {
                    let until = Instant::now() + POLL_INTERVAL / devices.len() as u32;
                    next_or_device.wait(device, Some(until))
                }),
            };
            if let Some(next) = next {
                return next;
            }
        }
    }

    /// Awaits the next readback. Returns `None` as [`Readbacks::wait_next`] does. Another thread or task must pump a
    /// driven device.
    pub async fn next(&self) -> Option<Readback<T, Tag>> {
        let (devices, _) = self.devices.snapshot();
        if !devices.iter().all(|device| device.is_of_this_process()) {
            return self.try_next();
        }
        drop(devices);
        self.receiver
            .recv_async()
            .await
            .ok()
            .inspect(|_| self.credit.release(1))
    }
}

/// How often each of several driven devices is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A future of the next readback, or of another device to drive.
struct NextOrDevice<'a, T, Tag> {
    readbacks: &'a Readbacks<T, Tag>,
    next: RecvFut<'a, Readback<T, Tag>>,
    /// The number of known devices.
    added: u64,
    /// The key of the registered waker.
    key: Option<usize>,
}

impl<T, Tag> Drop for NextOrDevice<'_, T, Tag> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.readbacks.devices.remove_waker(key);
        }
    }
}

impl<T, Tag> NextOrDevice<'_, T, Tag> {
    /// Drives a driven device until the readback arrives, or a device was added.
    fn wait(
        &mut self,
        device: &DeviceShared,
        until: Option<Instant>,
    ) -> Option<Option<Readback<T, Tag>>> {
        let mut received = None;
        device.channel().wait(until, &mut |waker| {
            let mut context = Context::from_waker(waker.unwrap_or(Waker::noop()));
            match Pin::new(&mut *self).poll(&mut context) {
                Poll::Ready(next_or_device) => received = Some(next_or_device),
                Poll::Pending => {}
            }
            received.is_some()
        });
        received.flatten()
    }
}

impl<T, Tag> Future for NextOrDevice<'_, T, Tag> {
    /// The readback, or the end of the sequence (`Some(None)`); `None` if there is another device to drive.
    type Output = Option<Option<Readback<T, Tag>>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(next) = Pin::new(&mut self.next).poll(context) {
            let taken = next.ok().inspect(|_| self.readbacks.credit.release(1));
            return Poll::Ready(Some(taken));
        }
        let (devices, added) = (&self.readbacks.devices, self.added);
        match devices.changed_since(added, &mut self.key, context.waker()) {
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

    type Shared = Arc<Sequence<u32, ReentrantTag>>;

    /// A tag whose drop checks that the lock of its sequence is free.
    struct ReentrantTag(u64, Shared);

    impl Drop for ReentrantTag {
        fn drop(&mut self) {
            assert!(
                try_lock(&self.1.order).is_some(),
                "dropped while the lock is held"
            );
            assert!(self.0 < 3, "the drop of this tag panics");
        }
    }

    fn readback(of: &Shared, number: u64) -> Readback<u32, ReentrantTag> {
        let (tag, elements) = (ReentrantTag(number, of.clone()), Err(Error::Closed));
        Readback { tag, elements }
    }

    /// A waker that delivers another readback the first time it is woken.
    struct Deliverer(Shared, AtomicU64);

    impl Wake for Deliverer {
        fn wake(self: Arc<Self>) {
            assert!(
                try_lock(&self.0.order).is_some(),
                "woken while the lock is held"
            );
            let number = self.1.swap(0, Ordering::Relaxed);
            if number > 0 {
                self.0.deliver(number, readback(&self.0, number));
            }
        }
    }

    /// I5: wakers and tags run foreign code, which may deliver, send requests and panic.
    #[test]
    fn delivery_runs_no_foreign_code_while_it_holds_the_lock_i5() {
        let (sender, sequence) = readbacks::<u32, ReentrantTag>(4);
        let shared = &sender.0;
        let waker = Waker::from(Arc::new(Deliverer(shared.clone(), AtomicU64::new(1))));
        let mut next = Box::pin(sequence.next());
        let mut context = Context::from_waker(&waker);
        assert!(next.as_mut().poll(&mut context).is_pending());
        assert_eq!(shared.credit.try_acquire(3), Ok(()));
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

//! Sequences of readbacks run no foreign code while they hold a lock: wakers and tags may use the sequence, and panic. A
//! future of theirs may be forgotten.

use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};

use millstream::stream::{ReadbackSender, readbacks};
use millstream::{Cpu, Device, Error, Handle, Stream};

type Action = Box<dyn FnOnce() + Send>;

/// A waker that acts the first time it is woken.
struct Acts(Mutex<Option<Action>>);

impl Wake for Acts {
    fn wake(self: Arc<Self>) {
        let action = self.0.lock().unwrap().take();
        action.into_iter().for_each(|act| act());
    }
}

fn acting(act: impl FnOnce() + Send + 'static) -> Waker {
    Waker::from(Arc::new(Acts(Mutex::new(Some(Box::new(act))))))
}

/// A tag that acts when it is dropped.
struct Tag(Option<Action>);

impl Drop for Tag {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|act| act());
    }
}

fn stream_and_values() -> (Device, Stream, Handle<u32>) {
    let device = Device::open(Cpu::default()).unwrap();
    let stream = device.new_client().new_stream();
    let values = stream.create(&[7]).unwrap();
    (device, stream, values)
}

/// I5: a waker may send another request, or panic; the drop of the last sender wakes as well.
#[test]
fn delivery_runs_no_foreign_code_while_it_holds_the_lock_i5() {
    let (_device, stream, values) = stream_and_values();
    let (sender, mut sequence) = readbacks::<u32, u32>(8);
    let (woken, wakes) = mpsc::channel();
    let again = (sender.clone(), stream.clone(), values.clone());
    let sends = move || again.0.read(&again.1, &again.2, 1).unwrap();
    let wakers = [acting(sends), acting(|| panic!("a waker that panics"))];
    for (waker, sent, expected) in [(&wakers[0], 0, vec![0, 1]), (&wakers[1], 2, vec![2])] {
        let mut next = Box::pin(sequence.next());
        let polled = next.as_mut().poll(&mut Context::from_waker(waker));
        assert!(polled.is_pending());
        sender.read(&stream, &values, sent).unwrap();
        let mut tags = vec![pollster::block_on(next).unwrap().tag];
        tags.extend((1..expected.len()).map(|_| sequence.wait_next().unwrap().tag));
        assert_eq!(tags, expected);
    }
    let waker = acting(move || woken.send(()).unwrap());
    let mut next = Box::pin(sequence.next());
    let polled = next.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending() && wakes.try_recv().is_err());
    drop(sender);
    assert!(wakes.try_recv().is_ok() && pollster::block_on(next).is_none());
}

/// I5, I6: a future that is dropped or forgotten while it waits takes no readback with it, in whatever way the consumer goes
/// on.
#[test]
fn forgotten_future_takes_no_readback_with_it_i5() {
    let (_device, stream, values) = stream_and_values();
    let (sender, mut sequence) = readbacks::<u32, u32>(4);
    for round in 0..3 {
        for is_forgotten in [true, false] {
            let mut next = Box::pin(sequence.next());
            let polled = next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
            match is_forgotten {
                true => std::mem::forget(next),
                false => drop(next),
            }
        }
        assert!(sequence.try_next().is_none());
        for tag in [round, round + 10, round + 20] {
            sender.read(&stream, &values, tag).unwrap();
        }
        assert_eq!(sequence.wait_next().unwrap().tag, round);
        let awaited = pollster::block_on(sequence.next());
        assert_eq!(awaited.unwrap().tag, round + 10);
        stream.sync().wait().unwrap();
        assert_eq!(sequence.try_next().unwrap().tag, round + 20);
    }
}

/// I5: a look at the sequence leaves the waker of the task that awaits its next request.
#[test]
fn a_look_leaves_the_waker_of_the_task_that_awaits_i5() {
    let (_device, stream, values) = stream_and_values();
    let (sender, mut sequence) = readbacks::<u32, u32>(4);
    for tag in 0..3 {
        let (woken, wakes) = mpsc::channel();
        let waker = acting(move || woken.send(()).unwrap());
        let mut next = Box::pin(sequence.next());
        let polled = next.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        drop(next);
        assert!(sequence.try_next().is_none());
        sender.read(&stream, &values, tag).unwrap();
        assert!(wakes.try_recv().is_ok(), "woken by the request");
        assert_eq!(sequence.wait_next().unwrap().tag, tag);
    }
}

/// I5, I12: a consumer that is dropped keeps nothing alive as long as a sender lives, and drops tags without a lock.
#[test]
fn dropped_consumer_drops_the_readbacks_that_it_has_not_taken_i12() {
    let (_device, stream, values) = stream_and_values();
    let (sender, sequence) = readbacks::<u32, Tag>(4);
    let alive = Arc::new(());
    let refuses = |sender: &ReadbackSender<u32, Tag>, alive: &Arc<()>| {
        let (sender, stream, values) = (sender.clone(), stream.clone(), values.clone());
        let alive = alive.clone();
        Tag(Some(Box::new(move || {
            let refused = sender.read(&stream, &values, Tag(None));
            assert!(matches!(refused, Err(refused) if matches!(refused.error, Error::NoConsumer)));
            drop(alive);
        })))
    };
    for _ in 0..3 {
        sender
            .read(&stream, &values, refuses(&sender, &alive))
            .unwrap();
    }
    drop(sequence);
    assert_eq!(Arc::strong_count(&alive), 1);
}

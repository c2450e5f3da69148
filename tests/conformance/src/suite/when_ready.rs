//! `Stream::when_ready`: futures that await room get it in the order of their requests, or end with the device (I5, I8,
//! I12).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};

use millstream::{DeviceOptions, Error, error::Full, update};

use crate::support::*;

/// A waker that counts its wakes.
#[derive(Default)]
struct WakeCount(AtomicUsize);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl WakeCount {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn poll<F: Future>(future: Pin<&mut F>, wakes: &Arc<WakeCount>) -> Poll<F::Output> {
    let waker = Waker::from(wakes.clone());
    future.poll(&mut Context::from_waker(&waker))
}

/// I8, I12: futures make their calls once there is room, in the order of their first polls, and a dropped future leaves
/// nothing behind.
pub(crate) fn futures_get_room_for_tasks_in_request_order(on: On) {
    let rig = on.open();
    let client = rig.device.client_builder().max_tasks(2).build();
    let (stream, other) = (client.new_stream(), rig.client().new_stream());
    let (values, guard) = on.put_held(&other, &[0_u32]);
    (1..3).for_each(|value| stream.nowait().fill(&values, value).unwrap());
    let wakes = Arc::new(WakeCount::default());
    let create = |value: u32| stream.when_ready(move |stream| stream.create(&[value; 100]));
    let (mut dropped, mut first) = (Box::pin(create(3)), Box::pin(create(4)));
    let mut last = Box::pin(stream.when_ready(|stream| stream.fill(&values, 5)));
    assert!(poll(dropped.as_mut(), &wakes).is_pending());
    assert!(poll(first.as_mut(), &wakes).is_pending());
    assert!(poll(last.as_mut(), &wakes).is_pending());
    drop(dropped);
    assert_eq!(wakes.count(), 0);
    drop(guard);
    other.drain();
    stream.client().drain();
    // The first future that still waits was granted the whole limit, and no other caller gets any.
    assert!(wakes.count() > 0);
    let (held, limit) = (2, 2);
    let refused = full(stream.nowait().fill(&values, 6));
    assert_eq!(refused, Full::Stream { held, limit });
    assert!(poll(last.as_mut(), &wakes).is_pending());
    let made = pollster::block_on(first).unwrap();
    client.drain();
    pollster::block_on(last).unwrap();
    client.drain();
    (0..2).for_each(|_| stream.nowait().fill(&values, 7).unwrap());
    client.drain();
    assert_eq!(stream.get(&made), [4; 100]);
    assert_eq!(stream.get(&values), [7]);
}

/// I5: a future that awaits room ends with an error when the device is closed.
pub(crate) fn future_that_awaits_room_ends_with_closed(on: On) {
    let rig = on.open_with(DeviceOptions::default().max_held(2));
    let (stream, other) = (rig.client().new_stream(), rig.client().new_stream());
    let values = other.put(&[0_u32]);
    if rig.driver.is_none() {
        rig.checks.expects_leaks();
    }
    let guard = on.guard(&other, (update(&values),)).unwrap();
    while stream.nowait().fill(&values, 1).is_ok() {}
    let wakes = Arc::new(WakeCount::default());
    let mut waits = Box::pin(stream.when_ready(|stream| stream.fill(&values, 2)));
    assert!(poll(waits.as_mut(), &wakes).is_pending());
    match rig.driver {
        Some(driver) => drop(driver),
        None => drop(rig.device.close(std::time::Duration::ZERO)),
    }
    assert!(wakes.count() > 0);
    assert_closed(pollster::block_on(waits));
    drop(guard);
}

/// I12: a future awaits room in the mailbox; the device's turn makes room and wakes it.
/// Needs: Driven.
pub(crate) fn future_awaits_room_in_the_mailbox(on: On) {
    let (mut rig, _, stream) = on.start_with(DeviceOptions::default().mailbox_capacity(8));
    let values = stream.put(&[0_u32; 1_000]);
    while stream.nowait().fill(&values, 1).is_ok() {}
    let wakes = Arc::new(WakeCount::default());
    let mut read = Box::pin(stream.when_ready(|stream| stream.read(&values).submitted()));
    let mut dropped = Box::pin(stream.when_ready(|stream| stream.fill(&values, 9)));
    assert!(poll(dropped.as_mut(), &wakes).is_pending());
    assert!(poll(read.as_mut(), &wakes).is_pending());
    drop(dropped);
    rig.pump();
    assert_eq!(wakes.count(), 1);
    let answer = pollster::block_on(read).unwrap();
    assert_eq!(answer.wait().unwrap(), [1; 1_000]);
}

/// I12: a future awaits room for uploads and for user code. If waiting cannot help, it returns `Busy`.
/// Needs: Threads.
pub(crate) fn future_awaits_room_for_uploads_and_jobs(on: On) {
    let rig = on.open_with(DeviceOptions::default().max_jobs(1));
    let builder = rig.device.client_builder();
    let client = builder.max_upload_bytes(1_000).max_tasks(3).build();
    let (stream, other) = (client.new_stream(), rig.client().new_stream());
    let values = stream.put(&[0_u8; 600]);
    client.drain();
    let guard = on.guard(&other, (update(&values),)).unwrap();
    stream.nowait().write(&values, &[1; 600]).unwrap();
    let mut data = vec![2_u8; 600];
    let write = stream.when_ready(|stream| {
        let made = stream.create_owned(std::mem::take(&mut data));
        made.map_err(|returned| returned.restore(&mut data))
    });
    let wakes = Arc::new(WakeCount::default());
    let mut write = Box::pin(write);
    assert!(poll(write.as_mut(), &wakes).is_pending());
    let (sender, received) = mpsc::channel();
    let mut ran = Some(move || sender.send(()).unwrap());
    stream.host("first", (), || ()).unwrap();
    let mut host = Box::pin(stream.when_ready(|stream| {
        let function = ran.take().expect("a refused call returns the function");
        let submitted = stream.host("second", (), function);
        submitted.map_err(|returned| {
            ran = Some(returned.value);
            returned.error
        })
    }));
    assert!(poll(host.as_mut(), &wakes).is_pending());
    // The future waits for room of its own stream; the call needs room of another.
    let of_one = || {
        rig.device
            .client_builder()
            .max_tasks(1)
            .build()
            .new_stream()
    };
    let another = of_one();
    another.fill(&values, 3).unwrap();
    let beside = rig.client().new_stream();
    let never = beside.when_ready(|_| another.nowait().fill(&values, 3));
    full(pollster::block_on(never));
    drop(guard);
    let made = pollster::block_on(write).unwrap();
    pollster::block_on(host).unwrap();
    assert_eq!(stream.get(&made), [2; 600]);
    received.recv().unwrap();
    let tiny = of_one();
    full(pollster::block_on(
        tiny.when_ready(|stream| stream.create(&[1_u32])),
    ));
}

/// I12: many handlers on few threads all complete, although the limits are far too small for them.
/// Needs: Threads.
pub(crate) fn many_futures_that_await_room_all_complete(on: On) {
    let rig = on.open_with(DeviceOptions::default().mailbox_capacity(4));
    let builder = rig.device.client_builder();
    let client = builder.max_tasks(3).max_upload_bytes(4_000).build();
    let handle = async |number: u32| -> Result<Vec<u32>, Error> {
        let stream = client.new_stream();
        let numbers = vec![number; 500];
        let values = stream.when_ready(|stream| stream.create(&numbers)).await?;
        let other = stream.when_ready(|stream| stream.empty::<u32>(500)).await?;
        let copied = stream.when_ready(|stream| stream.copy(&values, &other));
        copied.await?;
        let read = stream.when_ready(|stream| stream.read(&other).submitted());
        read.await?.await
    };
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let handle = &handle;
            scope.spawn(move || {
                for number in 0..20 {
                    let number = thread * 100 + number;
                    let answer = pollster::block_on(handle(number)).unwrap();
                    assert_eq!(answer, vec![number; 500]);
                }
            });
        }
    });
}

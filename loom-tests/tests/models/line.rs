//! Line: each batch is completed once and in order, by a caller or by the queue's thread, and none
//! is left behind.
//!
//! That no thread blocks at a locked line is checked by a test beside the code: loom 0.7 suspends a
//! thread inside `try_lock` while another thread locks the mutex, and would report a deadlock.

use millstream_loom::{Bound, Payload, Sides, check};
use millstream_sync::channel::{Receiver, Sender, bounded};
use millstream_sync::facade::{Arc, Mutex, SpinPolicy, lock};
use millstream_sync::line::{Ends, Holder, Line, Sent};
use millstream_sync::timeline::Timeline;
use std::time::Instant;

/// A batch, and whether a caller's wait for it passes its deadline.
struct Batch {
    cursor: u64,
    is_late: bool,
}

/// What is published, and the memory of the one publisher at a time.
struct Published {
    timeline: Timeline,
    last: Payload,
}

impl Published {
    fn complete(&self, batch: &Batch) {
        let cursor = u32::try_from(batch.cursor).unwrap();
        assert_eq!(self.last.get() + 1, cursor, "batches complete in order");
        self.last.set(cursor);
        self.timeline.publish(batch.cursor);
    }
}

struct QueueEnds {
    published: Arc<Published>,
    thread: Sender<Sent<Self>>,
}

impl Ends for QueueEnds {
    type Batch = Batch;

    fn wait(&mut self, batch: &mut Batch, _: Instant) -> bool {
        !batch.is_late
    }

    fn complete(&mut self, batch: Batch) {
        self.published.complete(&batch);
    }

    fn remind(&mut self, reminder: Sent<Self>) {
        self.thread
            .try_send(reminder)
            .expect("the channel has room");
    }
}

/// The device's side of a queue. One thread at a time uses it.
struct Device {
    published: Arc<Published>,
    holder: Holder<QueueEnds>,
    thread: Sender<Sent<QueueEnds>>,
    submitted: u64,
}

impl Device {
    /// Makes the channel for `depth` batches in flight and one reminder.
    fn new(depth: usize) -> (Self, Receiver<Sent<QueueEnds>>) {
        let published = Arc::new(Published {
            timeline: Timeline::new(),
            last: Payload::new(0),
        });
        let (thread, incoming) = bounded(depth + 1);
        let holder = Holder::new(QueueEnds {
            published: published.clone(),
            thread: thread.clone(),
        });
        let device = Self {
            published,
            holder,
            thread,
            submitted: 0,
        };
        (device, incoming)
    }

    fn next(&mut self, is_late: bool) -> Batch {
        self.submitted += 1;
        Batch {
            cursor: self.submitted,
            is_late,
        }
    }

    fn send(&mut self, batch: Batch) {
        let sent = self.holder.sent(batch, self.published.timeline.completed());
        self.thread.try_send(sent).expect("the channel has room");
    }

    /// Submits the batch of a caller that waits for it.
    fn hold(&mut self, is_late: bool) {
        let mut batches = vec![self.next(is_late)];
        let (before, last) = (self.submitted - 1, self.submitted);
        let completed = self.published.timeline.completed();
        self.holder.hold(&mut batches, before, last, completed);
        batches.into_iter().for_each(|batch| self.send(batch));
    }

    /// Submits a batch without a caller that waits for it.
    fn submit(&mut self) {
        let batch = self.next(false);
        self.send(batch);
    }

    /// Closes the queue. Its thread ends once all batches have completed.
    fn close(self) -> (u64, Arc<Published>) {
        self.holder.close();
        (self.submitted, self.published)
    }
}

/// A device behind its lock. `None` once it is closing.
type Shared = Arc<Mutex<Option<Device>>>;

/// Submits a batch as a caller that steps in, and completes it outside the device.
fn step_in(shared: &Shared, is_late: bool) {
    let mut device = lock(shared);
    let Some(device_inside) = &mut *device else {
        return;
    };
    device_inside.hold(is_late);
    let line = device_inside.holder.line().clone();
    drop(device);
    Line::run(&line, Instant::now());
}

/// The thread of the queue.
fn serve(published: &Published, incoming: &Receiver<Sent<QueueEnds>>) {
    while let Ok(sent) = incoming.recv() {
        sent.batches().for_each(|batch| published.complete(&batch));
    }
}

fn check_all_completed((submitted, published): &(u64, Arc<Published>)) {
    let completed = published.timeline.completed();
    assert_eq!(completed, *submitted, "a batch was left behind");
}

/// Runs a caller that holds a batch, beside the queue's thread and `beside`, which returns the closed queue.
fn beside_a_caller(
    sides: Sides,
    is_late: bool,
    beside: impl FnOnce(&Shared) -> (u64, Arc<Published>) + Send + 'static,
) {
    let (mut device, incoming) = Device::new(2);
    device.hold(is_late);
    let (line, published) = (device.holder.line().clone(), device.published.clone());
    let shared: Shared = Arc::new(Mutex::new(Some(device)));
    let (closed, (), ()) = sides.run_three(
        move || beside(&shared),
        move || serve(&published, &incoming),
        move || Line::run(&line, Instant::now()),
    );
    check_all_completed(&closed);
}

fn close(shared: &Shared) -> (u64, Arc<Published>) {
    let device = lock(shared).take();
    device.unwrap().close()
}

#[test]
fn a_late_batch_is_completed_by_the_thread() {
    check(Bound::ThreeThreads, |sides| {
        beside_a_caller(sides, true, |shared| {
            let published = lock(shared).as_ref().unwrap().published.clone();
            published.timeline.wait(1, &SpinPolicy::never()).unwrap();
            close(shared)
        });
    });
}

#[test]
fn a_sent_batch_is_completed_after_held_ones() {
    for is_late in [false, true] {
        check(Bound::ThreeThreads, move |sides| {
            beside_a_caller(sides, is_late, |shared| {
                lock(shared).as_mut().unwrap().submit();
                close(shared)
            });
        });
    }
}

#[test]
fn a_second_caller_completes_its_batch_in_order() {
    for (first, second) in [(false, false), (true, false), (true, true)] {
        check(Bound::ThreeThreads, move |sides| {
            beside_a_caller(sides, first, move |shared| {
                step_in(shared, second);
                close(shared)
            });
        });
    }
}

#[test]
fn a_batch_is_held_only_after_sent_ones_have_completed() {
    check(Bound::TwoThreads, |sides| {
        let (mut device, incoming) = Device::new(2);
        device.submit();
        let published = device.published.clone();
        let shared: Shared = Arc::new(Mutex::new(Some(device)));
        let step_in_and_close = move || {
            step_in(&shared, false);
            close(&shared)
        };
        let serve = move || serve(&published, &incoming);
        let (closed, ()) = sides.run(step_in_and_close, serve);
        check_all_completed(&closed);
    });
}

#[test]
fn the_close_leaves_no_batch_behind() {
    for is_late in [false, true] {
        check(Bound::ThreeThreads, move |sides| {
            beside_a_caller(sides, is_late, close);
        });
    }
}

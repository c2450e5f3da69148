use std::sync::mpsc;

use super::*;

fn gc(queues: usize) -> GcActor {
    let timelines = (0..queues).map(|_| Arc::new(Timeline::new())).collect();
    let (device, _controls) = ControlSender::new(Arc::new(Gate::new()), Arc::default());
    GcActor::new(
        timelines,
        device,
        Arc::new(DeviceStatus::default()),
        Meter::new(),
    )
}

fn at(queue: u8, cursor: u64) -> Point {
    Point::new(QueueId(queue), cursor)
}

struct SendOnDrop(u64, mpsc::Sender<u64>);

impl Drop for SendOnDrop {
    fn drop(&mut self) {
        let _ = self.1.send(self.0);
    }
}

fn entry(number: u64, sender: &mpsc::Sender<u64>, after: &[Point]) -> Handover {
    let value = SendOnDrop(number, sender.clone());
    Handover {
        after: after.iter().copied().collect(),
        value: DeferredDrop::unawaited(Box::new(value)),
        since_ns: 0,
    }
}

/// I4: a value is dropped once all of its points have passed.
#[test]
fn value_is_dropped_after_its_last_point_i4() {
    let (sender, dropped) = mpsc::channel();
    let mut gc = gc(2);
    gc.take(entry(1, &sender, &[at(0, 5), at(1, 3)]));
    gc.take(entry(2, &sender, &[at(0, 4)]));
    gc.take(entry(3, &sender, &[]));
    assert!(gc.is_due() && gc.collect(drop_value));
    assert_eq!(dropped.try_iter().collect::<Vec<_>>(), [3]);
    gc.timelines[0].publish(5);
    assert!(gc.is_due() && gc.collect(drop_value));
    assert_eq!(dropped.try_iter().collect::<Vec<_>>(), [2]);
    assert!(!gc.is_due() && !gc.collect(drop_value));
    gc.timelines[1].publish(3);
    assert!(gc.is_due() && gc.collect(drop_value));
    assert_eq!(dropped.try_iter().collect::<Vec<_>>(), [1]);
}

/// I5: a sleeping actor is woken at the least cursor, also if an earlier one arrives.
#[test]
fn waker_is_registered_at_the_least_cursor_i5() {
    let (sender, _dropped) = mpsc::channel();
    let mut gc = gc(1);
    let gate = Arc::new(Gate::new());
    let waker = Waker::from(gate.clone());
    let registered = |gate: &Arc<Gate>| Arc::strong_count(gate) - 2;
    gc.take(entry(1, &sender, &[at(0, 9)]));
    assert!(!gc.watch(&waker));
    gc.take(entry(2, &sender, &[at(0, 4)]));
    assert!(!gc.watch(&waker) && !gc.watch(&waker));
    assert_eq!(registered(&gate), 1, "one waker for each queue");
    gc.timelines[0].publish(4);
    assert_eq!(registered(&gate), 0, "it was woken");
    assert!(gc.collect(drop_value) && !gc.watch(&waker));
    assert_eq!(registered(&gate), 1);
}

/// Values whose points can no longer pass are parked, and no others.
#[test]
fn value_of_a_lost_queue_is_parked() {
    let (sender, dropped) = mpsc::channel();
    let mut gc = gc(2);
    gc.take(entry(1, &sender, &[at(0, 5)]));
    gc.take(entry(2, &sender, &[at(0, 2)]));
    gc.take(entry(3, &sender, &[at(1, 1)]));
    gc.timelines[0].publish(2);
    gc.timelines[0].end();
    assert!(gc.collect(drop_value));
    assert_eq!(dropped.try_iter().collect::<Vec<_>>(), [2]);
    assert_eq!(gc.parked(), 1);
    gc.park_all();
    assert_eq!((gc.parked(), dropped.try_iter().count()), (2, 0));
}

/// I12: a wake costs the entries that are due, however many wait.
#[test]
fn wake_visits_only_the_entries_that_are_due_i12() {
    const ENTRIES: u64 = 65_000;
    let (sender, dropped) = mpsc::channel();
    let mut gc = gc(2);
    let waker = Waker::from(Arc::new(Gate::new()));
    for number in 1..=ENTRIES {
        gc.take(entry(number, &sender, &[at(0, number), at(1, 1)]));
    }
    for number in 1..=ENTRIES {
        gc.timelines[0].publish(number);
        gc.collect(drop_value);
        gc.watch(&waker);
    }
    gc.timelines[1].publish(1);
    gc.collect(drop_value);
    assert_eq!(dropped.try_iter().count() as u64, ENTRIES);
    assert!(gc.visits <= 6 * ENTRIES, "{} visits", gc.visits);
}

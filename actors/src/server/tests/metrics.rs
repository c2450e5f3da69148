//! The counters and times, exactly: the test controls the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_protocol::{
    DeviceOptions, Op,
    metrics::{Histogram, Latencies, Metrics},
};

use super::build::{Slice, Stream};
use super::rig::Rig;
use millstream_state::observers::meter::Meter;

struct Timed {
    rig: Rig,
    clock: Arc<AtomicU64>,
}

impl Timed {
    /// Creates a rig that samples one task in `every`. The clock is at 1.
    fn new(queues: usize, every: u64) -> Self {
        let mut rig = Rig::new(queues, DeviceOptions::default().sample_latencies(every));
        let clock = Arc::new(AtomicU64::new(1));
        let read = clock.clone();
        let meter = Meter::timed(Arc::new(move || read.load(Ordering::Relaxed)));
        rig.actor.server.observers.meter = meter;
        Self { rig, clock }
    }

    fn at(&mut self, time: u64) -> &mut Self {
        self.clock.store(time, Ordering::Relaxed);
        self
    }

    /// Creates a stream with a slice of its own.
    fn stream(&mut self) -> (Stream, Slice) {
        let stream = self.rig.stream();
        let slice = self.rig.slice(&stream, 64);
        self.rig.rest();
        (stream, slice)
    }

    fn launch(&mut self, (stream, slice): &(Stream, Slice)) {
        self.rig.launch(stream, 1, &[slice.update()]);
    }

    fn metrics(&self) -> Metrics {
        self.rig.actor.server.metrics(0)
    }

    fn latencies(&self) -> Latencies {
        self.metrics().latencies.unwrap()
    }
}

/// Returns the number of values and the greatest.
fn figures(histogram: &Histogram) -> (u64, u64) {
    (histogram.count(), histogram.greatest())
}

#[test]
fn held_task_is_timed_from_admission_to_issue_and_to_completion() {
    let mut timed = Timed::new(1, 1);
    let (one, _other) = (timed.stream(), timed.stream());
    timed.at(10).launch(&one);
    // Two streams share the queue, so the task is held until the device has nothing else to do.
    timed.rig.admit();
    assert_eq!(timed.metrics().clients[0].tasks_held, 1);
    timed.at(25).rig.rest();
    assert_eq!(figures(&timed.latencies().queued_ns), (1, 15));
    assert_eq!(
        figures(&timed.latencies().runs_ns),
        (0, 0),
        "it has not completed"
    );
    timed.at(60).rig.step(0);
    assert_eq!(figures(&timed.latencies().runs_ns), (1, 35));
    assert_eq!(timed.latencies().missed, 0);
}

#[test]
fn task_that_passes_through_has_not_queued() {
    let mut timed = Timed::new(1, 1);
    let lone = timed.stream();
    timed.at(10).launch(&lone);
    timed.rig.rest();
    timed.at(11).rig.step(0);
    let latencies = timed.latencies();
    assert_eq!(figures(&latencies.queued_ns), (1, 0));
    assert_eq!(figures(&latencies.runs_ns), (1, 1));
}

#[test]
fn one_task_in_n_is_followed_and_points_are_not_counted() {
    let mut timed = Timed::new(1, 4);
    let (one, other) = (timed.stream(), timed.stream());
    for _ in 0..6 {
        timed.launch(&one);
        timed.launch(&other);
        timed.rig.submit(&one.0, Op::Mark, &[]);
    }
    timed.rig.drain();
    let latencies = timed.latencies();
    assert_eq!((latencies.every, latencies.queued_ns.count()), (4, 3));
    assert_eq!(latencies.runs_ns.count(), 3);
}

/// I12: at most 64 tasks are followed at once.
#[test]
fn task_without_a_free_probe_is_counted_as_missed_i12() {
    let mut timed = Timed::new(1, 1);
    let lone = timed.stream();
    for _ in 0..70 {
        timed.launch(&lone);
    }
    timed.rig.rest();
    assert_eq!(timed.latencies().missed, 6);
    timed.rig.drain();
    let latencies = timed.latencies();
    assert_eq!(latencies.runs_ns.count() + latencies.missed, 70);
    assert_eq!(latencies.queued_ns.count(), 70);
}

#[test]
fn dropped_slice_waits_for_its_last_use() {
    let mut timed = Timed::new(1, 1);
    let (stream, slice) = timed.stream();
    timed.rig.launch(&stream, 1, &[slice.update()]);
    timed.rig.rest();
    drop(slice);
    timed.at(100).rig.rest();
    timed.at(107);
    let waits = timed.metrics().collection;
    assert_eq!(
        (waits.slices_waiting, waits.slice_waits_ns_max),
        (1, Some(7))
    );
    assert!(timed.metrics().stats.memory.waiting > 0);
    timed.at(130).rig.step(0);
    timed.rig.rest();
    let waits = timed.metrics().collection;
    assert_eq!((waits.slices_waiting, waits.slice_waits_ns_max), (0, None));
    assert_eq!(figures(&timed.latencies().slice_waits_ns), (1, 30));
}

#[test]
fn slice_dropped_with_a_held_task_waits_from_its_drop_on() {
    let mut timed = Timed::new(1, 1);
    let (one, _other) = (timed.stream(), timed.stream());
    timed.launch(&one);
    timed.rig.admit();
    let (_stream, slice) = one;
    drop(slice);
    timed.at(50).rig.actor.server.process_drops();
    assert_eq!(timed.metrics().collection.slices_waiting, 1);
    timed.at(60).rig.rest();
    timed.at(90).rig.step(0);
    timed.rig.rest();
    assert_eq!(figures(&timed.latencies().slice_waits_ns), (1, 40));
    // A slice that no task uses waits for nothing.
    let (_stream, idle) = timed.stream();
    drop(idle);
    timed.rig.rest();
    assert_eq!(timed.latencies().slice_waits_ns.count(), 1);
}

#[test]
fn batch_sizes_are_the_numbers_of_tasks_flushed_together() {
    let mut timed = Timed::new(1, 0);
    let (one, _other) = (timed.stream(), timed.stream());
    for size in [3, 1, 5] {
        (0..size).for_each(|_| timed.launch(&one));
        timed.rig.rest();
    }
    let metrics = timed.metrics();
    let sizes: Vec<_> = metrics.batch_sizes.buckets_at_middle().collect();
    assert_eq!(sizes, [(1, 1), (3, 1), (5, 1)]);
    assert_eq!(metrics.stats.queues[0].in_flight(), 9);
    assert_eq!(metrics.stats.queues[0].streams, 2);
    assert!(metrics.latencies.is_none(), "no latencies are sampled");
}

#[test]
fn tasks_of_a_client_are_counted_after_its_streams_are_removed() {
    let mut timed = Timed::new(1, 0);
    let (one, other) = (timed.stream(), timed.stream());
    timed.launch(&one);
    timed.launch(&other);
    timed.rig.drain();
    let done = timed.metrics().clients[0].tasks;
    assert_eq!((done, timed.metrics().clients[0].streams), (2, 2));
    drop(one);
    timed.rig.drain();
    let client = timed.metrics().clients.remove(0);
    assert_eq!(
        (&*client.name, client.tasks, client.streams),
        ("tester", 2, 1)
    );
}

//! Metrics of a device: each figure is exact while no work is in flight. The device tests `reopening` check that they
//! start at zero in a new epoch.

use std::time::{Duration, Instant};

use millstream::metrics::{ClientMetrics, Metrics};
use millstream::{CancelToken, DeviceOptions};

use crate::support::*;

fn metrics(rig: &Rig) -> Metrics {
    rig.device.metrics().unwrap()
}

/// Returns the metrics of a client.
fn of<'a>(metrics: &'a Metrics, name: &str) -> &'a ClientMetrics {
    let mut clients = metrics.clients.iter();
    clients.find(|client| &*client.name == name).unwrap()
}

/// Reads the metrics until the condition holds: other threads may update their figures later.
fn until(rig: &Rig, holds: impl Fn(&Metrics) -> bool) -> Metrics {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let metrics = metrics(rig);
        if holds(&metrics) {
            return metrics;
        }
        assert!(Instant::now() < deadline, "{metrics:?}");
    }
}

pub(crate) fn metrics_of_an_idle_device_are_exact(on: On) {
    // Deep queues from the start, so that no task is held and no held answer counts as a task.
    let rig = on.open_with(DeviceOptions::default().max_in_flight_time(Duration::MAX));
    let named = |name: &str| rig.device.client_builder().name(name.to_owned()).build();
    let (busy, idle) = (named("busy"), named("idle"));
    let (add_one, stream, other) = (add_one(&busy), busy.new_stream(), idle.new_stream());
    let values = stream.put(&[1_u32; 1_000]);
    let kept = other.empty::<u32>(4).unwrap();
    for _ in 0..5 {
        launch_update(&stream, &add_one, &values).unwrap();
    }
    rig.device.drain();
    // A queue may run the end of its batch later.
    let metrics = until(&rig, |metrics| metrics.batch_sizes.sum() == 6);
    assert_eq!(metrics.stats.memory, rig.stats().memory);
    assert_eq!(metrics.stats.launches, 5);
    assert_eq!(metrics.batch_sizes.count(), metrics.stats.batches);
    let issued: u64 = metrics.stats.queues.iter().map(|queue| queue.tasks).sum();
    assert_eq!(issued, 6);
    for queue in &metrics.stats.queues {
        assert_eq!((queue.in_flight(), queue.held), (0, 0));
        assert!(queue.in_flight_max > 0 && metrics.mailbox_capacity == 256);
    }
    let assigned: u64 = metrics.stats.queues.iter().map(|queue| queue.streams).sum();
    assert_eq!((assigned, metrics.stats.streams), (2, 2));
    let (busy, idle) = (of(&metrics, "busy"), of(&metrics, "idle"));
    // A copy and five launches. The reservation is no task, since memory was free.
    assert_eq!((busy.tasks, busy.streams, busy.tasks_held), (6, 1, 0));
    assert_eq!((idle.tasks, idle.streams), (0, 1));
    assert!(busy.memory.in_use >= 4_000 && idle.memory.in_use >= 16);
    let device = &metrics.stats.memory;
    assert_eq!(device.in_use, busy.memory.in_use + idle.memory.in_use);
    assert_eq!(metrics.faults.total() + metrics.slices_poisoned, 0);
    assert_eq!(metrics.collection.slices_waiting, 0);
    assert_eq!((metrics.epoch, &metrics.latencies), (0, &None));
    drop(kept);
}

pub(crate) fn held_tasks_are_counted_for_their_client(on: On) {
    let rig = on.open();
    let client = rig.device.client_builder().name("waits").build();
    let add_one = add_one(&client);
    let owner = rig.client().new_stream();
    let stream = client.new_stream();
    let (values, guard) = on.put_held(&owner, &[1_u32; 4]);
    for _ in 0..3 {
        launch_update(&stream, &add_one, &values).unwrap();
    }
    let held = metrics(&rig);
    assert_eq!(of(&held, "waits").tasks_held, 3);
    let on_queues: u64 = held.stats.queues.iter().map(|queue| queue.held).sum();
    // Three launches and the guard.
    assert_eq!((on_queues, held.stats.tasks_held), (4, 4));
    drop(guard);
    assert_eq!(stream.get(&values), [4; 4]);
    let after = metrics(&rig);
    let waits = of(&after, "waits");
    assert_eq!((waits.tasks_held, after.stats.tasks_held), (0, 0));
    assert_eq!(waits.tasks, 4);
}

pub(crate) fn faults_are_counted_by_reason_and_poisoned_slices_until_healed_i7(on: On) {
    let (rig, client, stream) = on.start();
    let add_one = add_one(&client);
    let values = stream.put(&[1_u32; 4]);
    let clean = stream.put(&[1_u32; 4]);
    boom(on, &client).launch(&stream, &values).unwrap();
    launch_update(&stream, &add_one, &values).unwrap();
    launch_update(&stream, &add_one, &clean).unwrap();
    stream.drain();
    let failed = metrics(&rig);
    let expected = [("input", 1), ("panicked", 1)];
    let counts = failed.faults.by_reason().into_iter();
    let mut counts: Vec<_> = counts.filter(|(_, count)| *count > 0).collect();
    counts.sort_unstable();
    assert_eq!(counts, expected);
    assert_eq!(failed.slices_poisoned, 1);
    stream.fill(&values, 0).unwrap();
    stream.drain();
    let healed = metrics(&rig);
    assert_eq!((healed.slices_poisoned, healed.faults), (0, failed.faults));
}

pub(crate) fn cancelled_tasks_are_counted_as_cancelled_faults(on: On) {
    let (rig, client, stream) = on.start();
    let (add_one, owner) = (add_one(&client), client.new_stream());
    let (values, guard) = on.put_held(&owner, &[1_u32; 4]);
    let token = CancelToken::new();
    launch_update(&stream.with_cancel(&token), &add_one, &values).unwrap();
    token.cancel();
    drop(guard);
    stream.drain();
    let after = metrics(&rig);
    assert_eq!((after.faults.cancelled, after.faults.total()), (1, 1));
    assert_eq!((after.stats.withdrawn, after.slices_poisoned), (1, 1));
}

/// I4: a dropped slice or value is counted until its last use has passed.
/// Needs: Threads, HeldKernels.
pub(crate) fn dropped_slices_and_values_are_counted_until_they_are_freed(on: On) {
    let rig = on.open_with(DeviceOptions::default().sample_latencies(1));
    let (client, valve) = (rig.client(), rig.valve());
    let (held, stream) = (held(&client, &valve), client.new_stream());
    let values = stream.put(&[1_u32; 1_000]);
    stream.drain();
    held.launch(&stream, &values).unwrap();
    stream.flush().unwrap();
    valve.wait_for_arrivals(1);
    let (value, dropped) = SendsOnDrop::new();
    stream.drop_after(value).unwrap();
    drop(values);
    let waiting = metrics(&rig);
    assert_eq!(waiting.collection.slices_waiting, 1);
    assert_eq!(waiting.collection.values_waiting, 1);
    assert!(waiting.collection.slice_waits_ns_max.is_some());
    assert!(waiting.stats.memory.waiting >= 4_000);
    assert_eq!(waiting.latencies.unwrap().slice_waits_ns.count(), 0);
    valve.open();
    stream.drain();
    dropped.recv_timeout(PATIENCE).unwrap();
    let free = metrics(&rig);
    assert_eq!(free.collection.slices_waiting, 0);
    assert_eq!(free.collection.values_waiting, 0);
    assert_eq!(free.stats.memory.waiting, 0);
    let latencies = free.latencies.unwrap();
    assert_eq!(latencies.slice_waits_ns.count(), 1);
    assert_eq!(latencies.value_waits_ns.count(), 1);
}

pub(crate) fn every_task_is_timed_if_the_sampling_interval_is_one(on: On) {
    let (rig, client, stream) = on.start_with(DeviceOptions::default().sample_latencies(1));
    let add_one = add_one(&client);
    let values = stream.put(&[1_u32; 100]);
    let step = stream.record(|recorder| {
        (0..2).try_for_each(|_| recorder.launch(&add_one, one(), in_place(&values)))
    });
    let step = step.unwrap();
    for _ in 0..10 {
        launch_update(&stream, &add_one, &values).unwrap();
        step.replay(&stream).unwrap();
    }
    assert_eq!(stream.get(&values), [31; 100]);
    // A copy in, ten launches, ten replays and a copy out. The publisher of a cursor wakes its waiters one after the
    // other, so some figures may come later.
    let all = 22;
    let are_timed = |metrics: &Metrics| {
        let latencies = metrics.latencies.as_ref().unwrap();
        latencies.runs_ns.count() == all
    };
    let latencies = until(&rig, are_timed).latencies.unwrap();
    assert_eq!((latencies.every, latencies.missed), (1, 0));
    assert_eq!(latencies.queued_ns.count(), all);
    assert!(latencies.runs_ns.quantile(0.99) > 0);
}

//! Publishes snapshots to the facade of the crate `metrics`, and checks what a recorder receives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, Gauge, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    with_local_recorder,
};
use millstream::metrics::{Histogram, Metrics, Publisher};
use millstream::{Cpu, CubeCount, Device, DeviceOptions, Kernel, update};

/// A recorder that keeps what it receives, by `name{label=value,..}`.
#[derive(Default)]
struct TestRecorder {
    counters: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    gauges: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    histograms: Mutex<BTreeMap<String, Arc<Observed>>>,
    described: Mutex<BTreeSet<String>>,
}

#[derive(Default)]
struct Observed(Mutex<Vec<(f64, usize)>>);

impl HistogramFn for Observed {
    fn record(&self, value: f64) {
        self.record_many(value, 1);
    }

    fn record_many(&self, value: f64, count: usize) {
        self.0.lock().unwrap().push((value, count));
    }
}

fn key_text(key: &Key) -> String {
    let labels = key
        .labels()
        .map(|label| format!("{}={}", label.key(), label.value()));
    format!("{}{{{}}}", key.name(), labels.collect::<Vec<_>>().join(","))
}

impl Recorder for TestRecorder {
    fn describe_counter(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&key);
    }

    fn describe_gauge(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&key);
    }

    fn describe_histogram(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&key);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let mut counters = self.counters.lock().unwrap();
        Counter::from_arc(counters.entry(key_text(key)).or_default().clone())
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let mut gauges = self.gauges.lock().unwrap();
        Gauge::from_arc(gauges.entry(key_text(key)).or_default().clone())
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> metrics::Histogram {
        let mut histograms = self.histograms.lock().unwrap();
        metrics::Histogram::from_arc(histograms.entry(key_text(key)).or_default().clone())
    }
}

impl TestRecorder {
    fn describe(&self, key: &KeyName) {
        let mut described = self.described.lock().unwrap();
        described.insert(key.as_str().to_owned());
    }

    fn counter(&self, key: &str) -> u64 {
        self.counters.lock().unwrap()[key].load(Ordering::Relaxed)
    }

    fn gauge(&self, key: &str) -> f64 {
        f64::from_bits(self.gauges.lock().unwrap()[key].load(Ordering::Relaxed))
    }

    /// Takes the observations since the last call.
    fn observed(&self, key: &str) -> Vec<(f64, usize)> {
        std::mem::take(&mut *self.histograms.lock().unwrap()[key].0.lock().unwrap())
    }

    fn names(&self) -> BTreeSet<String> {
        let name = |key: &String| key.split('{').next().unwrap_or(key).to_owned();
        let mut names: BTreeSet<_> = self.counters.lock().unwrap().keys().map(name).collect();
        names.extend(self.gauges.lock().unwrap().keys().map(name));
        names.extend(self.histograms.lock().unwrap().keys().map(name));
        names
    }
}

#[test]
fn a_recorder_receives_the_figures_of_the_device() {
    let options = DeviceOptions::default().sample_latencies(1);
    let device = Device::open_with(Cpu::default().queues(2), options).unwrap();
    let client = device.client_builder().name("thumbnails").build();
    let touch = Kernel::new("touch")
        .updates::<u32>("values")
        .native(|_, _| {});
    let (touch, stream) = (client.kernel(touch).unwrap(), client.new_stream());
    let values = stream.create(&[0_u32; 1_000]).unwrap();
    for _ in 0..3 {
        stream
            .launch(&touch, CubeCount::single(), (update(&values),))
            .unwrap();
    }
    device.sync().wait().unwrap();
    let snapshot = device.metrics().unwrap();

    let recorder = TestRecorder::default();
    let mut publisher = Publisher::new("gpu 0");
    with_local_recorder(&recorder, || {
        Publisher::describe();
        publisher.publish(&snapshot);
    });
    assert_eq!(
        recorder.counter("millstream_launches_total{device=gpu 0}"),
        3
    );
    assert_eq!(
        recorder.counter("millstream_faults_total{device=gpu 0,reason=panicked}"),
        0
    );
    let of_queues = ["0", "1"].map(|queue| {
        let key = format!("millstream_queue_tasks_total{{device=gpu 0,queue={queue}}}");
        recorder.counter(&key)
    });
    assert_eq!(of_queues.iter().sum::<u64>(), 4);
    let in_use = recorder.gauge("millstream_memory_bytes{device=gpu 0,state=in_use}");
    assert_eq!(in_use, snapshot.stats.memory.in_use as f64);
    let of_client = "millstream_client_memory_bytes{device=gpu 0,client=thumbnails}";
    assert_eq!(recorder.gauge(of_client), in_use);
    let tasks = "millstream_client_tasks_total{device=gpu 0,client=thumbnails}";
    assert_eq!(recorder.counter(tasks), 4);
    let queued = recorder.observed("millstream_task_queued_seconds{device=gpu 0}");
    assert_eq!(queued.iter().map(|(_, count)| count).sum::<usize>(), 4);
    assert!(
        queued
            .iter()
            .all(|(seconds, _)| (0.0..60.0).contains(seconds))
    );
    assert_eq!(
        recorder.names(),
        *recorder.described.lock().unwrap(),
        "each published metric is described"
    );

    // The client is dropped: its counters stay, its gauges become 0.
    drop((stream, values, touch, client));
    with_local_recorder(&recorder, || publisher.publish(&device.metrics().unwrap()));
    assert_eq!(
        (recorder.counter(tasks), recorder.gauge(of_client)),
        (4, 0.0)
    );
    assert_eq!(
        recorder.observed("millstream_task_queued_seconds{device=gpu 0}"),
        []
    );
}

fn made_up(epoch: u64, launches: u64) -> Metrics {
    let mut metrics = Metrics::default();
    metrics.epoch = epoch;
    metrics.stats.launches = launches;
    metrics
}

#[test]
fn counters_continue_when_a_device_is_reopened() {
    let (recorder, mut publisher) = (TestRecorder::default(), Publisher::new("d"));
    let mut publish = |metrics: &Metrics| {
        with_local_recorder(&recorder, || publisher.publish(metrics));
        recorder.counter("millstream_launches_total{device=d}")
    };
    assert_eq!(publish(&made_up(0, 5)), 5);
    assert_eq!(publish(&made_up(0, 7)), 7);
    assert_eq!(publish(&made_up(1, 2)), 9);
    assert_eq!(publish(&made_up(1, 100)), 107);
    assert_eq!(publish(&made_up(2, 0)), 107);
}

/// Two threads may take snapshots in one order and publish them in the other: nothing is counted twice.
#[test]
fn a_snapshot_older_than_the_last_published_one_is_ignored() {
    let (recorder, mut publisher) = (TestRecorder::default(), Publisher::new("d"));
    let snapshot = |epoch, tasks| {
        let mut metrics = made_up(epoch, tasks);
        metrics.stats.tasks = tasks;
        (0..tasks).for_each(|_| metrics.batch_sizes.record(1));
        metrics
    };
    let mut batches = 0;
    for (epoch, tasks) in [
        (0, 5),
        (0, 3),
        (0, 5),
        (1, 2),
        (0, 7),
        (1, 4),
        (1, 2),
        (1, 4),
    ] {
        with_local_recorder(&recorder, || publisher.publish(&snapshot(epoch, tasks)));
        let new = recorder.observed("millstream_batch_tasks{device=d}");
        batches += new.iter().map(|(_, count)| count).sum::<usize>();
    }
    assert_eq!(
        recorder.counter("millstream_launches_total{device=d}"),
        5 + 4
    );
    assert_eq!(batches, 5 + 4);
}

#[test]
fn a_histogram_receives_new_observations_scaled_to_about_a_thousand() {
    let (recorder, mut publisher) = (TestRecorder::default(), Publisher::new("d"));
    let mut metrics = made_up(0, 0);
    let mut publish = |sizes: &Histogram| {
        metrics.batch_sizes = sizes.clone();
        with_local_recorder(&recorder, || publisher.publish(&metrics));
        recorder.observed("millstream_batch_tasks{device=d}")
    };
    let mut sizes = Histogram::new();
    (0..3).for_each(|_| sizes.record(2));
    assert_eq!(publish(&sizes), [(2.0, 3)]);
    sizes.record(5);
    assert_eq!(publish(&sizes), [(5.0, 1)]);
    assert_eq!(publish(&sizes), []);
    // One rare value among many is not lost.
    (0..1_000_000).for_each(|_| sizes.record(1));
    sizes.record(7);
    assert_eq!(publish(&sizes), [(1.0, 1_000), (7.0, 1)]);
}

#[test]
fn clients_beyond_a_hundred_names_share_one_label_i12() {
    let device = Device::open(Cpu::default().queues(1)).unwrap();
    let (recorder, mut publisher) = (TestRecorder::default(), Publisher::new("d"));
    let open = || {
        let client = device.new_client();
        let stream = client.new_stream();
        stream.create(&[0_u32; 16]).unwrap();
        (client, stream)
    };
    for _ in 0..3 {
        let clients: Vec<_> = (0..50).map(|_| open()).collect();
        device.sync().wait().unwrap();
        with_local_recorder(&recorder, || publisher.publish(&device.metrics().unwrap()));
        drop(clients);
    }
    let counters = recorder.counters.lock().unwrap();
    let of_clients = counters
        .iter()
        .filter(|(key, _)| key.starts_with("millstream_client_tasks_total"));
    let tasks: Vec<u64> = of_clients
        .map(|(_, tasks)| tasks.load(Ordering::Relaxed))
        .collect();
    assert_eq!((tasks.len(), tasks.iter().sum::<u64>()), (101, 150));
    drop(counters);
    assert_eq!(
        recorder.gauge("millstream_client_streams{device=d,client=others}"),
        50.0
    );
}

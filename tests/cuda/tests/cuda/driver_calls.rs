//! The exact number of driver calls of a launch, a batch and a hazard, and that nothing else is called.
//!
//! Most tests use driven devices, on which a round is one batch. A driven device polls its events and makes its context
//! current at each pump, so the number of these calls depends on the number of pumps, and they are not counted. Devices
//! with threads make no such calls, and all calls are counted.

use std::time::Duration;

use millstream_actors::{Device, Driver};
use millstream_client::arguments::update;
use millstream_client::handle::Handle;
use millstream_client::{KernelHandle, Stream};
use millstream_cuda::Cuda;
use rstest::rstest;

use crate::support::*;

struct Rig {
    fill: KernelHandle,
    driver: Driver,
    device: Device,
    gpu: Gpu,
}

/// Numbers of driver calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Calls {
    launches: u64,
    records: u64,
    waits: u64,
    /// Calls of all other functions, except [`POLLING`].
    others: u64,
}

/// The functions that a pump calls to poll the GPU's progress.
const POLLING: [&str; 3] = ["cuEventQuery", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"];

impl Calls {
    /// The expected calls of these numbers of launches and batches: one call for each.
    fn of(launches: u64, batches: u64) -> Self {
        Self {
            launches,
            records: batches,
            waits: 0,
            others: 0,
        }
    }
}

impl Rig {
    fn new(queues: usize) -> Self {
        let gpu = stepped(1);
        let kind = Cuda::ordinal(0).queues(queues);
        let (device, driver) = Device::open_driven(kind, options()).unwrap();
        let fill = device.new_client().kernel(fill()).unwrap();
        Self {
            gpu,
            device,
            driver,
            fill,
        }
    }

    fn launch(&self, stream: &Stream, to: &Handle<u32>) {
        launch_fill(stream, &self.fill, to, 1);
    }

    fn pump(&mut self) {
        while self.driver.pump(Duration::from_millis(1)) {}
    }

    /// Returns the calls of a round. Two rounds before it create everything that is created once.
    fn calls_of(&mut self, mut round: impl FnMut(&mut Self)) -> Calls {
        for _ in 0..2 {
            round(self);
            self.pump();
        }
        let before = self.calls();
        round(self);
        self.pump();
        let after = self.calls();
        Calls {
            launches: after.launches - before.launches,
            records: after.records - before.records,
            waits: after.waits - before.waits,
            others: after.others - before.others,
        }
    }

    fn calls(&self) -> Calls {
        let [launches, records, waits] = ["cuLaunchKernel", "cuEventRecord", "cuStreamWaitEvent"]
            .map(|name| self.gpu.calls(name));
        let polls = POLLING.map(|name| self.gpu.calls(name)).iter().sum::<u64>();
        Calls {
            launches,
            records,
            waits,
            others: self.gpu.calls_total() - launches - records - waits - polls,
        }
    }
}

/// I9: on one queue, each launch is one call, and each batch one more.
#[rstest]
fn a_launch_costs_one_call_and_a_batch_one_more_i9(#[values(1, 2, 15)] launches: u64) {
    let mut rig = Rig::new(1);
    let stream = rig.device.new_client().new_stream();
    let to = stream.empty::<u32>(32).unwrap();
    let calls = rig.calls_of(|rig| (0..launches).for_each(|_| rig.launch(&stream, &to)));
    assert_eq!(calls, Calls::of(launches, 1));
}

/// I3: a hazard between queues costs one more wait, and at most one more event, recorded behind the earlier task.
#[test]
fn a_hazard_between_queues_costs_one_wait_and_at_most_one_event_i3() {
    let mut rig = Rig::new(2);
    let streams = [(); 2].map(|()| rig.device.new_client().new_stream());
    let buffers = [(); 2].map(|()| streams[0].empty::<u32>(32).unwrap());
    let independent = rig.calls_of(|rig| {
        rig.launch(&streams[0], &buffers[0]);
        rig.launch(&streams[1], &buffers[1]);
    });
    assert_eq!(independent, Calls::of(2, 2), "one batch on each queue");
    let before = rig.device.stats();
    let conflicting = rig.calls_of(|rig| {
        rig.launch(&streams[0], &buffers[0]);
        rig.launch(&streams[1], &buffers[0]);
    });
    assert!(matches!(before, Ok(before) if before.waits_issued == 0));
    let at_most = Calls {
        records: conflicting.records.min(independent.records + 1),
        waits: 1,
        ..independent
    };
    assert_eq!(conflicting, at_most);
}

/// I9: with threads, each batch is one event, which its queue's thread waits for once. The only other calls create
/// events, if all existing ones are in use.
#[test]
fn with_threads_a_batch_costs_one_event_and_one_wait_i9() {
    const LAUNCHES: u64 = 2_000;
    let gpu = gpu(2);
    let device = open(1);
    let client = device.new_client();
    let (stream, fill) = (client.new_stream(), client.kernel(fill()).unwrap());
    let to = stream.empty::<u32>(32).unwrap();
    let run = || {
        for value in 0..LAUNCHES as u32 {
            launch_fill(&stream, &fill, &to, value);
        }
        stream.sync().wait().unwrap();
    };
    run();
    let names = [
        "cuLaunchKernel",
        "cuEventRecord",
        "cuEventSynchronize",
        "cuEventCreate",
        // A caller that takes the turn of the device's thread makes the context current meanwhile.
        "cuCtxPushCurrent_v2",
        "cuCtxPopCurrent_v2",
    ];
    let count = || (names.map(|name| gpu.calls(name)), gpu.calls_total());
    let before = (count(), device.stats().unwrap());
    run();
    let after = (count(), device.stats().unwrap());
    let calls = |name: usize| after.0.0[name] - before.0.0[name];
    assert_eq!(calls(0), LAUNCHES);
    assert!(
        calls(1) <= after.1.batches - before.1.batches,
        "the device records more than one event per batch"
    );
    assert_eq!(calls(2), calls(1), "each event is waited for once");
    let all: u64 = (0..names.len()).map(calls).sum();
    assert_eq!(after.0.1 - before.0.1, all, "no other function is called");
}

/// I11: requests that need no work of the GPU make no driver calls.
#[test]
fn an_idle_device_makes_no_driver_calls_i11() {
    let gpu = gpu(3);
    let (device, client, stream) = opened(2);
    let values = stream.create(&[1_u32; 32]).unwrap();
    stream.host("nothing", (update(&values),), || {}).unwrap();
    assert_eq!(stream.read(&values).wait().unwrap(), [1; 32]);
    // The device thread finishes its work after the readback before it answers this request.
    device.stats().unwrap();
    let before = gpu.calls_total();
    for _ in 0..100 {
        // The device thread receives messages, but none needs the GPU.
        device.stats().unwrap();
        client.memory_usage().wait().unwrap();
        stream.flush().unwrap();
    }
    assert_eq!(gpu.calls_total(), before);
}

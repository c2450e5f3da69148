//! How often the driver is called: what a launch, a batch and a hazard cost, exactly, and that nothing else grows.
//!
//! Most are on driven devices, so that a round is a batch, and with streams that write words for how far they are, or
//! without. What is in flight is looked for there, and the context made current on whatever thread pumps, as often as
//! somebody does; neither is counted. Devices with threads have nothing of that, and there everything is counted.

use std::time::Duration;

use fake_cuda::Session;
use millstream_actors::{Device, Driver};
use millstream_client::arguments::{CubeCount, update, write};
use millstream_client::handle::Handle;
use millstream_client::{KernelHandle, Stream};
use millstream_cuda::Cuda;
use rstest::rstest;

use crate::support::*;

struct Rig {
    gpu: Session,
    device: Device,
    driver: Driver,
    fill: KernelHandle,
}

/// Calls of the driver since something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Calls {
    launches: u64,
    records: u64,
    words: u64,
    waits: u64,
    /// Of any other function, but for those that look.
    others: u64,
}

/// What who pumps calls to see how far the GPU is.
const LOOKS: [&str; 3] = ["cuEventQuery", "cuStreamQuery", "cuCtxSetCurrent"];

impl Calls {
    /// So many launches, in so many batches.
    fn of(launches: u64, batches: u64, words: bool) -> Self {
        let (records, words) = match words {
            true => (0, batches),
            false => (batches, 0),
        };
        Self {
            launches,
            records,
            words,
            waits: 0,
            others: 0,
        }
    }
}

impl Rig {
    fn new(queues: usize, words: bool) -> Self {
        let gpu = Session::begin_stepped(1).unwrap_or_else(|error| panic!("{error}"));
        gpu.writes_values(words);
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
        let arguments = (write(to), 1_u32, 32_u32);
        stream
            .launch(&self.fill, CubeCount::single(), arguments)
            .unwrap();
    }

    fn pump(&mut self) {
        while self.driver.pump(Duration::from_millis(1)) {}
    }

    /// The calls of a round, which is the third of its kind: all that is made once has been made.
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
            words: after.words - before.words,
            waits: after.waits - before.waits,
            others: after.others - before.others,
        }
    }

    fn calls(&self) -> Calls {
        let [launches, records, words, waits] = [
            "cuLaunchKernel",
            "cuEventRecord",
            "cuStreamWriteValue64_v2",
            "cuStreamWaitEvent",
        ]
        .map(|name| self.gpu.calls(name));
        let looks = LOOKS.map(|name| self.gpu.calls(name)).iter().sum::<u64>();
        Calls {
            launches,
            records,
            words,
            waits,
            others: self.gpu.calls_total() - launches - records - words - waits - looks,
        }
    }

    fn end(self) {
        drop((self.fill, self.driver, self.device));
        self.gpu.assert_clean();
    }
}

/// A launch is one call, and a batch one more, on one queue.
#[rstest]
fn a_launch_is_a_call_and_a_batch_one_more_i9(
    #[values(1, 2, 15)] launches: u64,
    #[values(true, false)] words: bool,
) {
    let mut rig = Rig::new(1, words);
    let stream = rig.device.new_client().new_stream();
    let to = stream.empty::<u32>(32).unwrap();
    let calls = rig.calls_of(|rig| (0..launches).for_each(|_| rig.launch(&stream, &to)));
    assert_eq!(calls, Calls::of(launches, 1, words));
    drop((to, stream));
    rig.end();
}

/// I3: a hazard between queues is one wait more, and at most one event more, which is behind what it is about.
#[rstest]
fn a_hazard_between_queues_is_a_wait_and_at_most_an_event_more_i3(
    #[values(true, false)] words: bool,
) {
    let mut rig = Rig::new(2, words);
    let streams = [(); 2].map(|()| rig.device.new_client().new_stream());
    let buffers = [(); 2].map(|()| streams[0].empty::<u32>(32).unwrap());
    let apart = rig.calls_of(|rig| {
        rig.launch(&streams[0], &buffers[0]);
        rig.launch(&streams[1], &buffers[1]);
    });
    assert_eq!(apart, Calls::of(2, 2, words), "a batch on each queue");
    let before = rig.device.stats();
    let conflicting = rig.calls_of(|rig| {
        rig.launch(&streams[0], &buffers[0]);
        rig.launch(&streams[1], &buffers[0]);
    });
    assert!(matches!(before, Ok(before) if before.waits_issued == 0));
    let at_most = Calls {
        records: conflicting.records.min(apart.records + 1),
        waits: 1,
        ..apart
    };
    assert_eq!(conflicting, at_most);
    drop((buffers, streams));
    rig.end();
}

/// I9: with threads a batch is waited for once, by its queue's thread, and no event is made for what one is there for.
#[test]
fn with_threads_a_batch_is_an_event_that_is_waited_for_once_i9() {
    const LAUNCHES: u64 = 2_000;
    let gpu = gpu(2);
    let device = open(1);
    let client = device.new_client();
    let (stream, fill) = (client.new_stream(), client.kernel(fill()).unwrap());
    let to = stream.empty::<u32>(32).unwrap();
    let run = || {
        for value in 0..LAUNCHES {
            let arguments = (write(&to), value as u32, 32_u32);
            stream
                .launch(&fill, CubeCount::single(), arguments)
                .unwrap();
        }
        stream.sync().wait().unwrap();
    };
    run();
    let names = [
        "cuLaunchKernel",
        "cuEventRecord",
        "cuEventSynchronize",
        "cuEventCreate",
    ];
    let count = || (names.map(|name| gpu.calls(name)), gpu.calls_total());
    let before = (count(), device.stats().unwrap());
    run();
    let after = (count(), device.stats().unwrap());
    let grown = |of: usize| after.0.0[of] - before.0.0[of];
    assert_eq!(grown(0), LAUNCHES);
    assert!(
        grown(1) <= after.1.batches - before.1.batches,
        "an event a batch"
    );
    assert_eq!(grown(2), grown(1), "each is waited for");
    let all: u64 = (0..names.len()).map(grown).sum();
    assert_eq!(after.0.1 - before.0.1, all, "nothing else is called");
    drop((to, fill, stream, client, device));
    gpu.assert_clean();
}

/// I11: who asks nothing of the GPU calls nothing of its driver.
#[test]
fn an_idle_device_calls_nothing_i11() {
    let gpu = gpu(3);
    let device = open(2);
    let client = device.new_client();
    let stream = client.new_stream();
    let values = stream.create(&[1_u32; 32]).unwrap();
    stream.host("nothing", (update(&values),), || {}).unwrap();
    assert_eq!(stream.read(&values).wait().unwrap(), [1; 32]);
    // What the last answer leaves to be done is done before the next.
    device.stats().unwrap();
    let before = gpu.calls_total();
    for _ in 0..100 {
        // The device's thread takes messages, and has nothing to do.
        device.stats().unwrap();
        client.memory_usage().wait().unwrap();
        stream.flush().unwrap();
    }
    assert_eq!(gpu.calls_total(), before);
    drop((values, stream, client, device));
    gpu.assert_clean();
}

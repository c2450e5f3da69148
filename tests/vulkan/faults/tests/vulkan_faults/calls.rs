//! The exact number of driver calls of a launch, a batch, a copy, a hazard and a wait, and that nothing else is called.
//!
//! Most rounds are of driven devices, on which a round is one batch for each queue. Polls
//! (`vkGetSemaphoreCounterValue`) are not counted there: their number depends on the number of pumps.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream::vulkan::Vulkan;
use millstream::{
    CubeCount, Device, DeviceOptions, Driver, Handle, KernelHandle, Stream, read, update,
};
use millstream_vulkan_faults::WAITS;
use millstream_vulkan_faults::kernels::{add_one, large, mix};
use millstream_vulkan_faults::program::launch_large;

use crate::refusals::{Tested, session};

type Counts = BTreeMap<&'static str, u64>;

/// The calls of each batch. Devices whose memory the host can access have one more, a barrier for the host.
const BATCH: [&str; 4] = [
    "vkResetCommandPool",
    "vkBeginCommandBuffer",
    "vkEndCommandBuffer",
    "vkQueueSubmit2",
];

struct Rig {
    stream: Stream,
    device: Device,
    driver: Driver,
    /// Dropped last, so that a failed test does not disturb the next session.
    session: Tested,
    /// Barriers that make memory visible to the host, for each batch.
    visible: u64,
}

impl Rig {
    fn new() -> Option<Self> {
        let session = session()?;
        let kind = Vulkan::ordinal(0).queues(2);
        let (device, driver) = Device::open_driven(kind, DeviceOptions::default()).unwrap();
        let stream = device.new_client().new_stream();
        let mut rig = Self {
            session,
            device,
            driver,
            stream,
            visible: 0,
        };
        let values = rig.stream.create(&[1_u32; 64]).unwrap();
        let stream = rig.stream.clone();
        // The first copies to a buffer that no task has used need no barrier but the one for the host.
        let mut copy = || {
            let to = stream.empty::<u32>(64).unwrap();
            stream.copy(&values, &to).unwrap();
        };
        let calls = rig.calls_of(&mut copy);
        rig.visible = u64::from(calls.contains_key("vkCmdPipelineBarrier2"));
        Some(rig)
    }

    /// Returns the calls of a round. Rounds before it create everything that is created once.
    fn calls_of(&mut self, mut round: impl FnMut()) -> Counts {
        let mut before = Counts::default();
        for _ in 0..4 {
            before = self.session.counts();
            round();
            while self.driver.pump(Duration::from_millis(1)) {}
        }
        let mut counts = self.session.counts_since(&before);
        counts.remove("vkGetSemaphoreCounterValue");
        counts
    }

    /// Asserts that a round makes these calls and those of `batches` batches, and no others. `barriers` is the number of
    /// barriers between tasks, one of which is due to the round before.
    fn expect(
        &mut self,
        batches: u64,
        barriers: u64,
        calls: &[(&'static str, u64)],
        round: impl FnMut(),
    ) {
        let mut expected: Counts = calls.iter().copied().collect();
        expected.extend(BATCH.map(|name| (name, batches)));
        let all = barriers + batches * self.visible;
        if all > 0 {
            expected.insert("vkCmdPipelineBarrier2", all);
        }
        assert_eq!(self.calls_of(round), expected);
    }
}

fn launch(stream: &Stream, kernel: &KernelHandle, values: &Handle<u32>) {
    let arguments = (update(values), 64_u32);
    stream
        .launch(kernel, CubeCount::single(), arguments)
        .unwrap();
}

/// I9: a launch is a dispatch and its parameters. A pipeline is bound if it is not that of the launch before; a barrier
/// is recorded if the launch conflicts with an earlier task.
#[test]
fn launch_costs_two_calls_and_those_for_descriptors_pipelines_and_conflicts_i9() {
    let Some(mut rig) = Rig::new() else { return };
    let stream = rig.stream.clone();
    let client = rig.device.new_client();
    let [add_one, mix, large] =
        [add_one(), mix(), large()].map(|kernel| client.kernel(kernel).unwrap());
    let [a, b] = [(); 2].map(|()| stream.create(&[1_u32; 64]).unwrap());
    let total = stream.create(&[0_u64]).unwrap();
    let calls = |launches, pipelines| {
        [
            ("vkCmdBindPipeline", pipelines),
            ("vkCmdPushDescriptorSetKHR", launches),
            ("vkCmdPushConstants", launches),
            ("vkCmdDispatch", launches),
        ]
    };
    rig.expect(1, 1, &calls(1, 1), || launch(&stream, &add_one, &a));
    rig.expect(1, 2, &calls(2, 1), || {
        launch(&stream, &add_one, &a);
        launch(&stream, &add_one, &a);
    });
    rig.expect(1, 1, &calls(2, 1), || {
        launch(&stream, &add_one, &a);
        launch(&stream, &add_one, &b);
    });
    rig.expect(1, 2, &calls(2, 2), || {
        launch(&stream, &add_one, &a);
        let arguments = (read(&a), update(&b), 64_u32);
        stream.launch(&mix, CubeCount::single(), arguments).unwrap();
    });
    // With addresses there are no descriptors. Spilled parameters cost no call.
    let spilled = [
        ("vkCmdBindPipeline", 1),
        ("vkCmdPushConstants", 1),
        ("vkCmdDispatch", 1),
    ];
    rig.expect(1, 1, &spilled, || {
        launch_large(&stream, &large, &a, &total).unwrap();
    });
}

/// I9: a copy in any direction is one call, as is a fill.
#[test]
fn copies_and_fills_cost_one_call_i9() {
    let Some(mut rig) = Rig::new() else { return };
    let stream = rig.stream.clone();
    let [a, b] = [(); 2].map(|()| stream.create(&[1_u32; 64]).unwrap());
    let copy = [("vkCmdCopyBuffer", 1)];
    rig.expect(1, 1, &copy, || stream.copy(&a, &b).unwrap());
    rig.expect(1, 1, &copy, || stream.write(&a, &[2; 64]).unwrap());
    rig.expect(1, 1, &[("vkCmdFillBuffer", 1)], || {
        stream.fill(&a, 3).unwrap();
    });
    let calls = rig.calls_of(|| drop(stream.read(&a)));
    // Always with the barrier for the host; reads after reads do not conflict.
    let expected: Counts = BATCH
        .into_iter()
        .chain(["vkCmdCopyBuffer", "vkCmdPipelineBarrier2"])
        .map(|name| (name, 1))
        .collect();
    assert_eq!(calls, expected);
}

/// I9: a replay with the arguments of an earlier one is one call, however many tasks it has. One whose words change
/// records its tasks.
#[test]
fn replay_with_known_arguments_costs_one_call_i9() {
    const TASKS: u64 = 20;
    let Some(mut rig) = Rig::new() else { return };
    let stream = rig.stream.clone();
    let kernel = rig.device.new_client().kernel(add_one()).unwrap();
    let values = stream.create(&[1_u32; 64]).unwrap();
    let mut recorder = stream.recorder();
    let n = recorder.scalar::<u32>();
    for _ in 0..TASKS {
        let arguments = (update(&values), &n);
        recorder
            .launch(&kernel, CubeCount::single(), arguments)
            .unwrap();
    }
    let recording = recorder.finish().unwrap();
    let execute = [("vkCmdExecuteCommands", 1)];
    rig.expect(1, 1, &execute, || {
        recording.set(&n, 64).replay(&stream).unwrap();
    });
    let record = [
        ("vkCmdBindPipeline", 1),
        ("vkCmdPushDescriptorSetKHR", TASKS),
        ("vkCmdPushConstants", TASKS),
        ("vkCmdDispatch", TASKS),
    ];
    let mut words = 0..64;
    let mut replay = || {
        let other = words.next().unwrap();
        recording.set(&n, other).replay(&stream).unwrap();
    };
    // The device does not keep the secondary command buffer for ever.
    rig.calls_of(&mut replay);
    rig.expect(1, TASKS, &record, replay);
}

/// I3: a hazard between queues is a wait of a submission, and costs no call of its own.
#[test]
fn hazard_between_queues_costs_no_call_i3() {
    let Some(mut rig) = Rig::new() else { return };
    let (one, other) = (rig.stream.clone(), rig.device.new_client().new_stream());
    let kernel = rig.device.new_client().kernel(add_one()).unwrap();
    let [a, b] = [(); 2].map(|()| one.create(&[1_u32; 64]).unwrap());
    let independent = rig.calls_of(|| {
        launch(&one, &kernel, &a);
        launch(&other, &kernel, &b);
    });
    let before = rig.device.stats().unwrap().waits_issued;
    let mut conflicting = rig.calls_of(|| {
        launch(&one, &kernel, &a);
        launch(&other, &kernel, &a);
    });
    assert!(rig.device.stats().unwrap().waits_issued > before);
    assert_eq!(independent["vkQueueSubmit2"], 2);
    // The second launch waits for the first. The first need not wait for that of the round before, which has completed.
    assert!(conflicting.remove(WAITS).is_some_and(|waits| waits <= 2));
    assert_eq!(conflicting, independent);
}

/// I9: a wait for a queue that came after this queue's own tasks orders these too, so they need no barrier.
#[test]
fn a_hand_over_and_back_needs_no_barrier_against_the_first_launch_i9() {
    let Some(mut rig) = Rig::new() else { return };
    let (one, other) = (rig.stream.clone(), rig.device.new_client().new_stream());
    let kernel = rig.device.new_client().kernel(add_one()).unwrap();
    let a = one.create(&[1_u32; 64]).unwrap();
    let visible = rig.visible;
    let mut barriers_of = |streams: &[&Stream]| {
        let calls = rig.calls_of(|| {
            streams
                .iter()
                .for_each(|stream| launch(stream, &kernel, &a));
        });
        // Each command buffer may end with a barrier for the host.
        calls["vkCmdPipelineBarrier2"] - visible * calls["vkEndCommandBuffer"]
    };
    // Each queue has a barrier against its launch of the round before, which the host has seen to end.
    assert_eq!(barriers_of(&[&one, &other]), 2);
    // Only the first launch: the other queue waits for it, and it came after the other queue's last one.
    assert_eq!(barriers_of(&[&one, &other, &one, &other, &one]), 1);
    // Each launch: no wait is for a queue that came after the queue's own tasks.
    assert_eq!(barriers_of(&[&one, &one, &other, &other]), 4);
}

/// I9: with threads each batch is one submission, which its queue's thread waits for once. Nothing is created.
#[test]
fn with_threads_a_batch_costs_one_submission_and_one_wait_i9() {
    const LAUNCHES: u64 = 2_000;
    let Some(session) = session() else { return };
    let device = Device::open(Vulkan::ordinal(0).queues(1)).unwrap();
    let client = device.new_client();
    let (stream, kernel) = (client.new_stream(), client.kernel(add_one()).unwrap());
    let values = stream.create(&[1_u32; 64]).unwrap();
    let run = || {
        (0..LAUNCHES).for_each(|_| launch(&stream, &kernel, &values));
        stream.sync().wait().unwrap();
    };
    run();
    let before = session.counts();
    run();
    let calls = session.counts_since(&before);
    let count = |name| calls.get(name).copied().unwrap_or_default();
    assert_eq!(count("vkCmdDispatch"), LAUNCHES);
    assert_eq!(count("vkCmdPushConstants"), LAUNCHES);
    assert!(count("vkCmdBindPipeline") <= count("vkQueueSubmit2"));
    // The number of command buffers depends on the number of batches in flight at once, so some may still be created.
    let created = count("vkCreateCommandPool");
    assert!(created <= 256, "{created} command pools");
    assert_eq!(count("vkWaitSemaphores"), count("vkQueueSubmit2"));
    assert_eq!(count("vkGetSemaphoreCounterValue"), 0);
    assert_eq!(count("vkQueueWaitIdle"), 0);
    assert_eq!(count("vkAllocateMemory"), 0);
}

/// I11: requests that need no device cost no driver call.
#[test]
fn requests_that_need_no_device_cost_no_call_i11() {
    let Some(session) = session() else { return };
    let device = Device::open(Vulkan::ordinal(0).queues(2)).unwrap();
    let client = device.new_client();
    let stream = client.new_stream();
    let values = stream.create(&[1_u32; 32]).unwrap();
    stream.host("nothing", (update(&values),), || {}).unwrap();
    assert_eq!(stream.read(&values).wait().unwrap(), [1; 32]);
    device.stats().unwrap();
    let before = session.counts();
    for _ in 0..100 {
        device.stats().unwrap();
        client.memory_usage().wait().unwrap();
        stream.flush().unwrap();
    }
    assert_eq!(session.counts_since(&before), Counts::default());
}

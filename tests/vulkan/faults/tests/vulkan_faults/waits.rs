//! A caller that waits for a driven device waits in the driver: for the oldest batch in flight, for a bounded time, without
//! the lock of the device.

use std::sync::mpsc;
use std::time::Duration;

use ash::vk;
use millstream::vulkan::{Vulkan, VulkanResources};
use millstream::{Access, Device, DeviceOptions, Driver, Error, Handle, Stream};
use millstream_vulkan_faults::program::PATIENCE;
use millstream_vulkan_faults::{REACHED, TIMEOUTS};
use rstest::rstest;

use crate::refusals::{Tested, fault, session};

/// The waits to observe. More than a thread makes before it has noticed what happened.
const WAITS: u64 = 10;

struct Rig {
    values: Handle<u32>,
    stream: Stream,
    device: Device,
    driver: Driver,
    /// Dropped last, so that a failed test does not disturb the next session.
    session: Tested,
}

impl Rig {
    /// Opens a device with one queue, which is idle.
    fn new() -> Option<Self> {
        Self::with(1)
    }

    /// Opens an idle device, which appears to be a GPU: on the processor a wait is for one queue.
    fn with(queues: usize) -> Option<Self> {
        let session = session()?;
        session.pretend_discrete();
        let opened = Device::open_driven(session.checked.options(queues), DeviceOptions::default());
        let (device, driver) = opened.unwrap();
        let stream = device.new_client().new_stream();
        let values = stream.create(&[7_u32; 64]).unwrap();
        stream.sync().wait().unwrap();
        Some(Self {
            values,
            stream,
            device,
            driver,
            session,
        })
    }

    /// Submits a batch. Returns the value that it signals.
    fn submit(&self, value: u32) -> u64 {
        self.stream.fill(&self.values, value).unwrap();
        self.stream.flush().unwrap();
        // Each query is answered in its own turn, and a turn ends with the flush of what it has issued.
        (0..2).for_each(|_| drop(self.device.metrics()));
        self.session.signalled()
    }

    fn read(&self) -> Result<Vec<u32>, Error> {
        self.stream.read(&self.values).wait_timeout(PATIENCE)
    }
}

/// I5, I11: a thread that waits sleeps in the driver, several at once; it wakes for due user code of another thread within
/// the bound, and for the completion of its task.
#[rstest]
fn waiting_callers_wait_in_the_driver_and_hear_the_bell_i5_i11(#[values(1, 3)] threads: usize) {
    let Some(rig) = Rig::new() else { return };
    let answer = rig.stream.read(&rig.values);
    rig.stream.sync().wait().unwrap();
    rig.session.hold();
    rig.submit(8);
    let before = rig.session.counts();
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..threads).map(|_| scope.spawn(|| rig.read())).collect();
        let waits = rig.session.await_count(TIMEOUTS, WAITS, &before);
        answer
            .on_ready(move |data| sender.send((data, std::thread::current().id())).unwrap())
            .unwrap();
        let heard = waits.then(|| receiver.recv_timeout(PATIENCE));
        // First, so that a failed test ends.
        rig.session.release();
        let heard = heard.expect("the threads wait in the driver, with a bound");
        let (data, runner) = heard.unwrap();
        assert_eq!(data.unwrap(), [7; 64]);
        assert!(waiters.iter().any(|waiter| waiter.thread().id() == runner));
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap().unwrap(), [8; 64]);
        }
    });
    // I11: no task runs, so a thread that asks the device for something does not wait in the driver.
    let before = rig.session.counts();
    rig.stream.sync().wait().unwrap();
    rig.device.stats().unwrap();
    let calls = rig.session.counts_since(&before);
    assert!(!calls.contains_key("vkWaitSemaphores"), "{calls:?}");
}

/// I11: once a batch has completed, the waits are for the next one. A wait for a batch that has completed would return at
/// once, again and again.
#[test]
fn wait_is_for_the_oldest_batch_in_flight_i11() {
    let Some(rig) = Rig::new() else { return };
    rig.session.hold();
    let (first, second) = (rig.submit(8), rig.submit(9));
    assert!(first < second, "{first} and {second}: one batch");
    rig.session.hold_at(first);
    let before = rig.session.counts();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| rig.read());
        let waits = rig.session.await_count(TIMEOUTS, WAITS, &before);
        let calls = rig.session.counts_since(&before);
        rig.session.release();
        assert!(waits, "no wait is for the second batch: {calls:?}");
        let reached = calls.get(REACHED).copied().unwrap_or_default();
        assert!(reached <= 1, "{calls:?}");
        assert_eq!(waiter.join().unwrap().unwrap(), [9; 64]);
    });
}

/// I11: while a thread is inside the device, which publishes nothing meanwhile, no other waits in the driver: its batch may
/// have completed, and each wait would return at once.
#[test]
fn no_caller_waits_in_the_driver_while_a_thread_is_inside_i11() {
    /// How often the thread inside yields the processor: enough for thousands of waits that return at once.
    const YIELDS: usize = 20_000;
    let Some(rig) = Rig::new() else { return };
    rig.session.hold();
    rig.submit(8);
    let before = rig.session.counts();
    let reached = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| rig.read());
        let waits = rig.session.await_count(TIMEOUTS, WAITS, &before);
        let (sender, receiver) = mpsc::channel();
        let session = &rig.session;
        let (released, counted) = (session.counts(), sender);
        // Ends the hold, so that a failed test ends too.
        rig.session.release();
        let inside = move |_: &VulkanResources| {
            (0..YIELDS).for_each(|_| std::thread::yield_now());
            counted.send(()).unwrap();
        };
        let nothing: [(&Handle<u8>, Access); 0] = [];
        rig.stream
            .with_resource::<Vulkan>("inside", nothing.as_slice(), inside)
            .unwrap();
        rig.stream.sync().wait().unwrap();
        receiver.recv_timeout(PATIENCE).unwrap();
        let calls = rig.session.counts_since(&released);
        assert!(waits, "the thread waits in the driver");
        assert_eq!(waiter.join().unwrap().unwrap(), [8; 64]);
        calls.get(REACHED).copied().unwrap_or_default()
    });
    assert!(reached <= WAITS, "{reached} waits returned at once");
}

/// I5: a wait is for any of the queues with work in flight, not for all of them, nor only for the first.
#[test]
fn wait_ends_with_the_first_completion_of_any_queue_i5() {
    let Some(rig) = Rig::with(2) else { return };
    let other = rig.device.new_client().new_stream();
    let short = other.create(&[1_u32; 64]).unwrap();
    other.sync().wait().unwrap();
    // The first queue is ahead, so that a value may be reached on the second queue only.
    for value in 0..8 {
        rig.submit(value);
    }
    rig.stream.sync().wait().unwrap();
    rig.session.hold();
    let first = rig.submit(8);
    other.fill(&short, 2).unwrap();
    let read = other.read(&short);
    rig.device.metrics().unwrap();
    rig.device.metrics().unwrap();
    let second = rig.session.signalled();
    assert!(second < first, "{second} and {first}");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| read.wait());
        rig.session.stall();
        rig.session.await_held(1);
        let before = rig.session.counts();
        rig.session.hold_at(second);
        rig.session.resume();
        let reached = rig.session.await_count(REACHED, 1, &before);
        rig.session.release();
        assert!(reached, "the wait is not for the second queue");
        assert_eq!(waiter.join().unwrap().unwrap(), [2; 64]);
    });
}

/// I5: a loss that the driver reports only to the wait of a caller is a loss. Any other error of it is none.
#[rstest]
fn loss_reported_to_a_waiting_caller_loses_the_device_i5(
    #[values(
        vk::Result::ERROR_DEVICE_LOST,
        vk::Result::ERROR_OUT_OF_HOST_MEMORY,
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
    )]
    result: vk::Result,
) {
    let Some(rig) = Rig::new() else { return };
    rig.session.hold();
    rig.submit(8);
    rig.session
        .refuse(fault(Some("vkWaitSemaphores"), WAITS, result));
    let before = rig.session.counts();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| rig.read());
        if result == vk::Result::ERROR_DEVICE_LOST {
            let answer = waiter.join().unwrap();
            rig.session.release();
            assert!(
                matches!(answer, Err(Error::DeviceLost { epoch: 0, .. })),
                "{answer:?}"
            );
        } else {
            // The thread goes on to wait.
            let waits = rig.session.await_count(TIMEOUTS, 2 * WAITS, &before);
            rig.session.release();
            assert!(waits);
            assert_eq!(waiter.join().unwrap().unwrap(), [8; 64]);
        }
    });
    assert_eq!(rig.session.refused(), 1);
}

/// I5: a loss ends the waits in flight, of several threads.
#[test]
fn loss_ends_the_waits_of_all_threads_i5() {
    let Some(rig) = Rig::new() else { return };
    rig.session.hold();
    rig.submit(8);
    let before = rig.session.counts();
    std::thread::scope(|scope| {
        let waiters = [(); 3].map(|()| scope.spawn(|| rig.read()));
        let waits = rig.session.await_count(TIMEOUTS, WAITS, &before);
        rig.session.lose();
        assert!(waits);
        for waiter in waiters {
            let answer = waiter.join().unwrap();
            assert!(
                matches!(answer, Err(Error::DeviceLost { epoch: 0, .. })),
                "{answer:?}"
            );
        }
    });
}

/// I10: the object by which callers wait outlives the device, for whose semaphores it does nothing any more.
#[test]
fn closed_device_leaves_no_semaphore_to_its_callers_i10() {
    let Some(rig) = Rig::new() else { return };
    let Rig {
        values,
        stream,
        device,
        driver,
        session,
    } = rig;
    let before = session.counts();
    assert!(driver.close().drained);
    let read = stream.read(&values).wait();
    assert!(read.is_err(), "{read:?}");
    let calls = session.counts_since(&before);
    assert_eq!(calls.get("vkDestroySemaphore"), Some(&1), "{calls:?}");
    assert!(!calls.contains_key("vkWaitSemaphores"), "{calls:?}");
    drop((values, stream, device));
}

/// I4, I10: a device may be closed while a thread waits in the driver. The semaphore and the logical device live until
/// that wait has ended.
#[test]
fn device_is_dropped_while_a_caller_waits_in_the_driver_i4_i10() {
    let Some(rig) = Rig::new() else { return };
    rig.session.hold();
    rig.submit(8);
    let read = rig.stream.read(&rig.values);
    rig.session.stall();
    let Rig {
        values,
        stream,
        device,
        mut driver,
        session,
    } = rig;
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| read.wait());
        session.await_held(1);
        // The device completes its tasks, but the thread still waits.
        session.hold_at(u64::MAX);
        while driver.pump(Duration::from_millis(1)) {}
        drop((values, stream, device));
        let report = driver.close();
        let calls = session.counts();
        session.release();
        assert!(report.drained && report.bytes_left == 0, "{report:?}");
        let destroyed = ["vkDestroySemaphore", "vkDestroyDevice"];
        assert!(destroyed.iter().all(|call| !calls.contains_key(call)));
        assert_eq!(waiter.join().unwrap().unwrap(), [8; 64]);
    });
}

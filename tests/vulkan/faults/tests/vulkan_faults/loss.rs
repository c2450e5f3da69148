//! The device is lost while tasks are in flight.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use ash::vk;
use millstream::vulkan::Vulkan;
use millstream::{
    CubeCount, Device, DeviceOptions, Driver, Error, Handle, Health, KernelHandle, Pending, Stream,
    device::Recovery, error, read, report::Profile, update,
};
use millstream_vulkan_faults::kernels::add_one;
use millstream_vulkan_faults::program::{self, PATIENCE, Submitted, all_in_flight};
use millstream_vulkan_faults::{Checked, Fault};
use rstest::rstest;

use crate::refusals::{Mode, after_a_loss, fault, session};

/// More calls than the program makes until it waits. A driven device then polls and waits, again and again.
const CALLS: u64 = 200;

/// The queues of a device.
const QUEUES: usize = 2;

fn open(mode: Mode, checked: &Checked, options: DeviceOptions) -> (Device, Option<Driver>) {
    match mode {
        Mode::Threads => (
            Device::open_with(checked.options(QUEUES), options).unwrap(),
            None,
        ),
        Mode::Driven => {
            let (device, driver) = Device::open_driven(checked.options(QUEUES), options).unwrap();
            (device, Some(driver))
        }
    }
}

/// I5, I10: at each driver call in turn the device is lost, while no task has completed. Every request is answered with
/// the loss.
#[rstest]
fn loss_at_each_call_while_all_tasks_are_in_flight_answers_every_request_i5(
    #[values(Mode::Threads, Mode::Driven)] mode: Mode,
) {
    for nth in (1..CALLS).step_by(5) {
        let Some(session) = session() else { return };
        let (device, _driver) = open(mode, &session.checked, all_in_flight());
        session.hold();
        session.refuse(Fault {
            lasts: true,
            ..fault(None, nth, vk::Result::ERROR_DEVICE_LOST)
        });
        let submitted = program::submit(&device).and_then(|submitted| {
            submitted.await_issued(&device)?;
            Ok(submitted)
        });
        let mut refused = 0;
        std::thread::scope(|scope| {
            let ran = scope.spawn(|| submitted.and_then(Submitted::finish));
            // All that still happens is that the thread of each queue waits. A driven device polls, and waits with a time
            // limit, until a call is refused.
            refused = session.await_refused_or_held(QUEUES);
            session.lose();
            match ran.join().unwrap() {
                Err(Error::DeviceLost { epoch: 0, recovery }) => {
                    assert_eq!(recovery, Recovery::SameProcess);
                }
                Err(Error::Kernel(why)) => assert!(why.to_string().contains("lost"), "{why}"),
                other => assert!(
                    !matches!(other, Err(Error::TimedOut { .. }) | Ok(())),
                    "call {nth}: {other:?}"
                ),
            }
        });
        session.release();
        after_a_loss(nth, &device);
        if refused == 0 {
            assert!(nth > 60, "the program makes more than 60 calls");
            break;
        }
    }
}

/// Makes a request that must wait, calls the function, and waits. Returns `true` if the answer is the loss.
type Wait<'a> = Box<dyn FnOnce(&dyn Fn()) -> bool + Send + 'a>;

/// Waiters by name: what they request, and how they wait for it.
macro_rules! waits {
    ($($name:literal: $request:expr => $wait:ident($($limit:expr)?);)*) => {
        [$(($name, Box::new(|begins| {
            #[allow(unused_mut, reason = "some waits consume the request")]
            let mut request = $request;
            begins();
            is_lost(request.$wait($($limit)?).map(drop))
        }))),*]
    };
}

/// A stream without room for a request.
struct Full<R>(Stream, R);

impl<R: Fn(&Stream) -> Result<(), Error>> Full<R> {
    /// Makes the request, which waits for room.
    fn wait(self) -> Result<(), Error> {
        (self.1)(&self.0)
    }
}

/// Makes requests until there is no room, and none can come without the device's progress.
fn full<R: Fn(&Stream) -> Result<(), Error>>(
    device: &Device,
    stream: Stream,
    request: R,
) -> Full<R> {
    let hurried = stream.nowait();
    let mut refused = 0;
    while refused < 2 {
        match request(&hurried) {
            Ok(()) => refused = 0,
            Err(Error::Busy { what }) => {
                refused += u32::from(!matches!(what, error::Full::Mailbox { .. }));
                // The device answers a query after it has issued what came before.
                (0..2).for_each(|_| drop(device.metrics()));
            }
            Err(error) => panic!("{error}"),
        }
    }
    Full(stream, request)
}

/// Requests a profile of a launch.
fn profiled(stream: &Stream, kernel: &KernelHandle, values: &Handle<u32>) -> Pending<Profile> {
    let (_, profile) = stream
        .profiled(|stream| launch(stream, kernel, values))
        .unwrap();
    profile
}

/// Counts its wake-ups.
#[derive(Default)]
struct Wakes(AtomicU64);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn launch(stream: &Stream, kernel: &KernelHandle, values: &Handle<u32>) -> Result<(), Error> {
    stream.launch(kernel, CubeCount::single(), (update(values), 64_u32))
}

fn is_lost<T>(answer: Result<T, Error>) -> bool {
    matches!(answer, Err(Error::DeviceLost { epoch: 0, .. }))
}

/// I5: a loss wakes every kind of waiter, with threads and without: for a readback, a stream, the device, a resource, a
/// profile, room in a stream, room for uploads; futures and callbacks. A host function does not run.
#[rstest]
fn loss_wakes_every_kind_of_waiter_i5(#[values(Mode::Threads, Mode::Driven)] mode: Mode) {
    let Some(session) = session() else { return };
    let options = DeviceOptions::default().max_held(4);
    let (device, mut driver) = open(mode, &session.checked, options);
    let client = device.client_builder().max_upload_bytes(1 << 20).build();
    let stream = client.new_stream();
    let values = stream.create(&[7_u32; 64]).unwrap();
    let kernel = client.kernel(add_one()).unwrap();
    stream.sync().wait().unwrap();
    session.hold();
    launch(&stream, &kernel, &values).unwrap();
    let (told, hears) = mpsc::channel();
    let callback = client.new_stream().read(&values);
    let callback = callback.on_ready(move |answer| told.send(is_lost(answer)).unwrap());
    assert!(callback.is_ok());
    let ran = Arc::new(AtomicU64::new(0));
    let runs = ran.clone();
    let host = client.new_stream();
    host.host("count", (read(&values),), move || {
        runs.fetch_add(1, Ordering::SeqCst);
    })
    .unwrap();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut future = Box::pin(client.new_stream().read(&values));
    let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    let stream_of = || client.new_stream();
    std::thread::scope(|scope| {
        let waits: [(&str, Wait<'_>); 8] = waits! {
            "readback": stream_of().read(&values) => wait();
            "stream": stream.sync() => wait();
            "device": device.sync() => wait();
            "timeout": client.sync() => wait_timeout(PATIENCE);
            "resource": stream_of().get_resource::<Vulkan>((read(&values),)) => wait();
            "profile": profiled(&stream_of(), &kernel, &values) => wait();
            "room": full(&device, stream_of(), |stream| launch(stream, &kernel, &values)) => wait();
            "uploads": full(&device, stream_of(), |stream| stream.create(&vec![1_u8; 300_000]).map(drop)) => wait();
        };
        let (begun, begins) = mpsc::channel();
        let (ended, ends) = mpsc::channel();
        let count = waits.len();
        for (name, wait) in waits {
            let (begun, ended) = (begun.clone(), ended.clone());
            scope.spawn(move || {
                let lost = wait(&|| begun.send(name).unwrap());
                ended.send((name, lost)).unwrap();
            });
        }
        // From here on each thread can only wait.
        let begun: Vec<_> = (0..count)
            .map_while(|_| begins.recv_timeout(PATIENCE).ok())
            .collect();
        let early = ends.try_recv();
        // First, so that a failed test ends.
        session.lose();
        assert_eq!(begun.len(), count, "only these have begun: {begun:?}");
        assert!(early.is_err(), "a thread did not wait: {early:?}");
        for _ in 0..count {
            let (name, lost) = ends.recv_timeout(PATIENCE).unwrap();
            assert!(lost, "{name}");
        }
    });
    if let Some(driver) = &mut driver {
        // Waits leave user code to the next pumps, and a pump without a budget begins none after 200 us.
        while driver.pump(Duration::ZERO) {}
    }
    assert!(hears.recv_timeout(PATIENCE).unwrap(), "callback");
    match future.as_mut().poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(answer) => assert!(is_lost(answer)),
        Poll::Pending => panic!("the future is pending after the loss"),
    }
    assert!(wakes.0.load(Ordering::SeqCst) > 0, "the future was woken");
    assert_eq!(ran.load(Ordering::SeqCst), 0, "the host function ran");
    assert!(matches!(device.health(), Health::Lost { epoch: 0, .. }));
    after_a_loss(0, &device);
}

/// I5, I10: a close that waits for tasks in flight ends when the device is lost.
#[test]
fn loss_ends_a_close_that_waits_i5_i10() {
    let Some(session) = session() else { return };
    let (device, _) = open(Mode::Threads, &session.checked, all_in_flight());
    let client = device.new_client();
    let stream = client.new_stream();
    let values = stream.create(&[7_u32; 64]).unwrap();
    stream.sync().wait().unwrap();
    session.hold();
    stream.fill(&values, 8).unwrap();
    let mut answer = stream.read(&values);
    let report = std::thread::scope(|scope| {
        let closed = scope.spawn(|| device.close(PATIENCE));
        session.await_held(1);
        session.lose();
        closed.join().unwrap()
    });
    assert!(!report.drained, "{report:?}");
    assert_eq!(
        (report.threads_left, report.bytes_left),
        (0, 0),
        "{report:?}"
    );
    let lost = answer.wait_timeout(PATIENCE);
    assert!(matches!(lost, Err(Error::DeviceLost { .. })), "{lost:?}");
}

/// I10: a device that is closed while it makes no progress is left alone, and freed when its tasks have completed.
#[test]
fn device_that_makes_no_progress_is_closed_within_the_patience_i10() {
    let Some(mut session) = session() else { return };
    // What is left is leaked by contract, so only uses of destroyed objects would be wrong.
    session.may_leak = true;
    let (device, _) = open(Mode::Threads, &session.checked, all_in_flight());
    let stream = device.new_client().new_stream();
    let values = stream.create(&[7_u32; 64]).unwrap();
    stream.sync().wait().unwrap();
    session.hold();
    stream.fill(&values, 8).unwrap();
    session.await_held(1);
    let report = device.close(Duration::from_millis(50));
    assert!(!report.drained && report.threads_left > 0, "{report:?}");
    session.release();
}

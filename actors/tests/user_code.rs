//! User code on the device's threads: its calls, and its panics.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::future::Future;
use std::panic::panic_any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use millstream_actors::{Device, Driver};
use millstream_client::arguments::CubeCount;
use millstream_cpu::Cpu;
use millstream_protocol::{Access, DeviceOptions, Error, Full, Kernel};

/// Far longer than any test here takes, so that a hang becomes a failure.
const PATIENCE: Duration = Duration::from_secs(60);

fn cpu() -> Cpu {
    Cpu::default().queues(2).threads(2)
}

/// A waker that blocks the device thread until it is released.
struct Blocker {
    blocked: mpsc::Sender<()>,
    go: Mutex<mpsc::Receiver<()>>,
}

impl Wake for Blocker {
    fn wake(self: Arc<Self>) {
        // A test that has failed no longer receives.
        let _ = self.blocked.send(());
        let _ = self.go.lock().unwrap().recv_timeout(PATIENCE);
    }
}

/// I8: a kernel that submits does not wait for room while the device thread is blocked and makes none.
#[test]
fn a_submission_that_would_block_a_thread_of_the_runtime_is_an_error_i8() {
    let options = DeviceOptions::default().mailbox_capacity(4);
    let device = Device::open_with(cpu(), options).unwrap();
    let client = device.new_client();
    let (stream, own) = (client.new_stream(), client.new_stream());
    let (start, started) = mpsc::channel();
    let (sender, receiver) = mpsc::channel();
    let started = Mutex::new(started);
    let submits = Kernel::new("submits").native(move |_, _| {
        started.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        let errors = (0..1_000).find_map(|_| own.flush().err());
        let busy = own.nowait().flush().err();
        sender.send((errors, busy)).unwrap();
    });
    let submits = client.kernel(submits).unwrap();
    stream.launch(&submits, CubeCount::single(), ()).unwrap();
    stream.flush().unwrap();

    let (blocked, is_blocked) = mpsc::channel();
    let (go, going) = mpsc::channel();
    let blocker = Waker::from(Arc::new(Blocker {
        blocked,
        go: Mutex::new(going),
    }));
    // The device thread itself replies with the ticket, which is the answer on an idle stream, and wakes the caller,
    // unless the reply was faster than the poll.
    let idle = client.new_stream();
    let pending = (0..10_000).find_map(|_| {
        let mut answer = Box::pin(idle.sync());
        let polled = answer.as_mut().poll(&mut Context::from_waker(&blocker));
        polled.is_pending().then_some(answer)
    });
    assert!(pending.is_some(), "the device thread was always faster");
    is_blocked.recv_timeout(PATIENCE).unwrap();
    start.send(()).unwrap();
    let (error, busy) = receiver.recv_timeout(PATIENCE).unwrap();
    assert!(
        matches!(
            error,
            Some(Error::NoRoomHere {
                what: Full::Mailbox { .. }
            })
        ),
        "{error:?}"
    );
    assert!(
        matches!(
            busy,
            Some(Error::Busy {
                what: Full::Mailbox { .. }
            })
        ),
        "{busy:?}"
    );
    go.send(()).unwrap();
    drop(go);
    assert!(device.close(PATIENCE).drained);
}

/// A panic payload that panics again when it is dropped, `0` more times.
struct PanicOnDrop(u32);

impl Drop for PanicOnDrop {
    fn drop(&mut self) {
        if self.0 > 0 {
            panic_any(PanicOnDrop(self.0 - 1));
        }
    }
}

/// Pumps a driven device until there is nothing to do.
fn pump(driver: &mut Option<Driver>) {
    if let Some(driver) = driver {
        while driver.pump(Duration::ZERO) {}
    }
}

fn payloads_that_panic_when_dropped_end_no_thread(device: &Device, mut driver: Option<Driver>) {
    let client = device.new_client();
    let stream = client.new_stream();
    let kernel = Kernel::new("panics").updates::<u32>("data");
    let kernel = kernel.native(|_, _| panic_any(PanicOnDrop(2)));
    let kernel = client.kernel(kernel).unwrap();
    for _ in 0..20 {
        let data = stream.create(&[1_u32; 8]).unwrap();
        let other = stream.create(&[2_u32; 8]).unwrap();
        let bound = || [(&data, Access::ReadWrite)];
        stream
            .host("panics", &bound()[..], || panic_any(PanicOnDrop(2)))
            .unwrap();
        assert!(matches!(stream.read(&data).wait(), Err(Error::Failed(_))));
        stream.write(&data, &[3; 8]).unwrap();
        let one = (millstream_client::arguments::update(&data),);
        stream.launch(&kernel, CubeCount::d1(8), one).unwrap();
        assert!(matches!(stream.read(&data).wait(), Err(Error::Failed(_))));
        let called = stream.sync().on_ready(|_| panic_any(PanicOnDrop(2)));
        assert!(called.is_ok());
        pump(&mut driver);
        assert_eq!(stream.read(&other).wait().unwrap(), [2; 8]);
    }
    drop((stream, client));
    let report = match driver {
        Some(driver) => driver.close(),
        None => device.close(PATIENCE),
    };
    assert!(report.drained && report.threads_left == 0, "{report:?}");
}

/// I7, I10: such a panic ends no thread of the runtime.
#[test]
fn a_payload_that_panics_when_dropped_ends_no_thread_i7() {
    let device = Device::open(cpu()).unwrap();
    payloads_that_panic_when_dropped_end_no_thread(&device, None);
}

#[test]
fn a_payload_that_panics_when_dropped_does_not_reach_the_pumping_thread_i7() {
    let (device, driver) = Device::open_driven(cpu(), DeviceOptions::default()).unwrap();
    payloads_that_panic_when_dropped_end_no_thread(&device, Some(driver));
}

/// I5, I12: the close releases the credit of uploads that were never sent, and answers callers that wait for it.
fn an_undrained_close_gives_back_room(device: &Device, close: impl FnOnce() -> bool) {
    let client = device.new_client();
    let (stream, other) = (client.new_stream(), client.new_stream());
    let data = stream.create(&[0_u8; 1_024]).unwrap();
    let guard = stream.get_resource::<Cpu>(&[(&data, Access::Write)][..]);
    let guard = guard.wait().unwrap();
    // Waits behind the guard, and holds all of the credit.
    stream.write(&data, &[1; 1_024]).unwrap();
    let upload = || other.nowait().create(&[2_u8; 1_024]).err();
    assert!(matches!(
        upload(),
        Some(Error::Busy {
            what: Full::Uploads { .. }
        })
    ));
    let waiter = {
        let waiting = client.new_stream();
        std::thread::spawn(move || waiting.create(&[3_u8; 1_024]).err())
    };
    assert!(!close(), "the guard still exists");
    assert!(matches!(waiter.join().unwrap(), Some(Error::Closed)));
    // With the credit still taken this would return `Busy`.
    assert!(matches!(upload(), Some(Error::Closed)), "{:?}", upload());
    drop(guard);
}

#[test]
fn a_close_that_does_not_drain_releases_the_credit_of_uploads_i12() {
    let options = DeviceOptions::default().max_upload_bytes(1_024);
    let device = Device::open_with(cpu(), options).unwrap();
    an_undrained_close_gives_back_room(&device, || device.close(Duration::from_millis(20)).drained);
}

#[test]
fn a_driven_close_that_does_not_drain_releases_the_credit_of_uploads_i12() {
    let options = DeviceOptions::default().max_upload_bytes(1_024);
    let (device, driver) = Device::open_driven(cpu(), options).unwrap();
    an_undrained_close_gives_back_room(&device, || driver.close().drained);
}

/// Sets a flag when dropped.
struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// I10, I4: a kernel may use a value that is dropped after it. So a close that does not wait for the kernel does not
/// drop the value either, whether the drop waits behind a host function or in the mailbox.
#[test]
fn a_close_keeps_values_that_a_running_kernel_may_use_i4() {
    for closes_early in [false, true] {
        let device = Device::open_with(cpu(), DeviceOptions::default()).unwrap();
        let client = device.new_client();
        let stream = client.new_stream();
        let dropped = Arc::new(AtomicBool::new(false));
        let (start, started) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let (sender, receiver) = mpsc::channel();
        let (seen, ended) = (dropped.clone(), Mutex::new(ended));
        let uses = Kernel::new("uses").native(move |_, _| {
            start.send(()).unwrap();
            assert!(ended.lock().unwrap().recv_timeout(PATIENCE).is_err());
            sender.send(seen.load(Ordering::SeqCst)).unwrap();
        });
        let uses = client.kernel(uses).unwrap();
        stream.launch(&uses, CubeCount::single(), ()).unwrap();
        stream.flush().unwrap();
        started.recv_timeout(PATIENCE).unwrap();
        stream.host("between", (), || ()).unwrap();
        stream.drop_after(SetOnDrop(dropped.clone())).unwrap();
        if !closes_early {
            // The device's reply implies that it has admitted all earlier messages.
            device.stats().unwrap();
        }
        let report = device.close(Duration::ZERO);
        assert!(!report.drained, "{report:?}");
        drop(end);
        assert!(!receiver.recv_timeout(PATIENCE).unwrap(), "{closes_early}");
    }
}

/// I8: the code that receives the error of an external task is code of the user, so it runs on a thread for user code, and
/// neither on the device thread nor on a caller that steps in.
#[test]
fn an_external_task_that_cannot_begin_calls_back_on_a_thread_for_user_code_i8() {
    use millstream_client::arguments::update;
    use millstream_protocol::{CancelToken, marks::runs_user_code};

    let device = Device::open(cpu()).unwrap();
    let token = CancelToken::new();
    let stream = device.new_client().new_stream();
    let values = stream.create(&[1_u32; 4]).unwrap();
    token.cancel();
    let (sender, receiver) = mpsc::channel();
    let late = stream.with_cancel(&token);
    late.external("late", update(&values), move |begun| {
        sender.send((begun.is_err(), runs_user_code())).unwrap();
    })
    .unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), (true, true));
    assert!(device.close(PATIENCE).drained);
}

//! Opening, closing, and what is left (I5, I9, I10).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use millstream::{Cpu, Device, DeviceOptions, Error, Kernel, OpenError, read, update};
use rstest::rstest;
use rstest_reuse::apply;

use crate::support::*;

/// I10.
#[apply(every_device)]
fn dropping_every_client_with_work_in_flight_drains_and_leaks_nothing(#[case] on: On) {
    let ran = Arc::new(AtomicU32::new(0));
    let rig = on.open();
    {
        let client = rig.client();
        let seen = ran.clone();
        let count = Kernel::new("add_one")
            .updates::<u32>("v")
            .scalar::<u32>("n")
            .native(move |_, _| {
                seen.fetch_add(1, Ordering::Relaxed);
            });
        let count = client.kernel(count.elements_ptx()).unwrap();
        for _ in 0..50 {
            let stream = client.stream();
            let values = stream.create(&[0_u32; 64]).unwrap();
            for _ in 0..4 {
                launch_update(&stream, &count, &values).unwrap();
            }
        }
    }
    let report = match rig.driver {
        None => rig.device.close(Duration::from_secs(60)),
        Some(driver) => driver.close(),
    };
    assert!(report.drained, "{report:?}");
    assert_eq!(
        (report.tasks_left, report.slices_held, report.threads_left),
        (0, 0, 0)
    );
    assert!(report.bytes_freed > 0);
    match on.is_cuda() {
        true => assert!(
            rig.checked
                .kernels_run("add_one")
                .is_none_or(|of| of == 200)
        ),
        false => assert_eq!(ran.load(Ordering::Relaxed), 200),
    }
    assert_eq!(Arc::strong_count(&ran), 1, "the kernel's closure is gone");
}

/// I5: after the close every call says so, at once.
#[apply(every_device)]
fn a_closed_device_says_so(#[case] on: On) {
    let rig = on.open();
    let client = rig.client();
    let (stream, add_one) = (client.stream(), add_one(&client));
    let values = stream.create(&[0_u32]).unwrap();
    let before = stream.read(&values);
    match rig.driver {
        None => drop(rig.device.close(Duration::from_secs(60))),
        Some(driver) => drop(driver),
    }
    assert_eq!(
        before.wait().unwrap(),
        [0],
        "what was accepted was answered"
    );
    assert!(matches!(
        launch_update(&stream, &add_one, &values),
        Err(Error::Closed)
    ));
    assert!(matches!(stream.read(&values).wait(), Err(Error::Closed)));
    assert!(matches!(stream.empty::<u32>(1), Err(Error::Closed)));
    assert!(matches!(client.sync().wait(), Err(Error::Closed)));
    assert!(matches!(client.stream().flush(), Err(Error::Closed)));
    assert!(matches!(
        client.kernel(
            Kernel::new("k")
                .native(|_, _| {})
                .source(empty_ptx("k", &[]))
        ),
        Err(Error::Closed)
    ));
    drop((values, stream, client));
}

/// I5: a close that cannot drain ends in time, and whoever waits is answered.
#[rstest]
#[case::cpu(On::Cpu)]
#[case::cuda(On::Cuda)]
fn a_close_with_work_that_does_not_end_reports_it_in_time(#[case] on: On) {
    let rig = on.open();
    let client = rig.client();
    let valve = rig.valve();
    let (held, stream) = (held(&client, &valve), client.stream());
    let values = stream.create(&[0_u32]).unwrap();
    held.launch(&stream, &values).unwrap();
    valve.wait_for_arrivals(1);
    let answer = stream.read(&values);
    rig.checked.expects_leaks();
    let report = rig.device.close(Duration::from_millis(20));
    assert!(!report.drained && report.threads_left >= 1, "{report:?}");
    assert!(matches!(answer.wait(), Err(Error::Closed)));
    valve.open();
}

/// No global state.
#[apply(every_device)]
fn two_devices_in_one_process_do_not_meet(#[case] on: On) {
    let (first, second) = (on.open(), on.open());
    let (a, b) = (first.client(), second.client());
    let (add_a, add_b) = (add_one(&a), add_one(&b));
    let (stream_a, stream_b) = (a.stream(), b.stream());
    let (values_a, values_b) = (
        stream_a.create(&[0_u32]).unwrap(),
        stream_b.create(&[100_u32]).unwrap(),
    );
    for _ in 0..100 {
        launch_update(&stream_a, &add_a, &values_a).unwrap();
        launch_update(&stream_b, &add_b, &values_b).unwrap();
    }
    assert_eq!(stream_a.read(&values_a).wait().unwrap(), [100]);
    drop(first);
    assert_eq!(stream_b.read(&values_b).wait().unwrap(), [200]);
}

/// I6: values travel to the GC thread and are dropped once the stream's point has passed.
#[apply(every_device)]
fn a_value_is_dropped_after_the_streams_point_and_not_before(#[case] on: On) {
    let mut rig = on.open();
    let client = rig.client();
    let stream = client.stream();
    let values = stream.create(&[0_u32]).unwrap();
    let guard = on.guard(&stream, (update(&values),)).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    struct Tell(std::sync::mpsc::Sender<()>);
    impl Drop for Tell {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
        }
    }
    stream.drop_after(Tell(sender)).unwrap();
    assert!(receiver.try_recv().is_err());
    drop(guard);
    stream.sync().wait().unwrap();
    if let Some(driver) = &mut rig.driver {
        while driver.pump(Duration::from_millis(1)) {}
    }
    receiver.recv().unwrap();
}

#[test]
fn options_that_cannot_be_are_refused_with_a_sentence() {
    let zero =
        Device::open_with(Cpu::default(), DeviceOptions::default().max_tasks(0)).unwrap_err();
    assert_eq!(
        zero.to_string(),
        "option `max_tasks` is 0, it must be at least 1"
    );
    assert!(matches!(
        Device::open(Cpu::default().queues(0)),
        Err(OpenError::Option { .. })
    ));
    assert!(matches!(
        Device::open(Cpu::default().queues(10_000)),
        Err(OpenError::Option { .. })
    ));
    assert!(matches!(
        Device::open(Cpu::default().threads(0)),
        Err(OpenError::Option { .. })
    ));
}

/// I12: handles beyond the limit are an error, and dropping some makes room.
#[apply(every_device)]
fn handles_beyond_the_limit_are_an_error(#[case] on: On) {
    let rig = on.open_with(DeviceOptions::default().max_handles(16));
    let stream = rig.client().stream();
    let mut handles = Vec::new();
    let error = loop {
        match stream.empty::<u8>(1) {
            Ok(handle) => handles.push(handle),
            Err(error) => break error,
        }
        assert!(handles.len() <= 16);
    };
    assert!(
        error
            .to_string()
            .contains("16 slices, kernels and streams live"),
        "{error}"
    );
    handles.clear();
    stream.sync().wait().unwrap();
    assert!(stream.empty::<u8>(1).is_ok());
}

/// I5: user code that does not end cannot hold up a close beyond its time.
#[test]
fn a_callback_that_does_not_end_is_left_behind_by_a_close() {
    let rig = On::Cpu.open();
    let stream = rig.client().stream();
    let values = stream.create(&[0_u32]).unwrap();
    let valve = Valve::new();
    let held = valve.clone();
    stream.read(&values).on_ready(move |_| held.pass()).unwrap();
    valve.wait_for_arrivals(1);
    let report = rig.device.close(Duration::from_millis(500));
    assert!(report.threads_left == 1, "{report:?}");
    valve.open();
}

/// A closed device has no thread for user code, and the caller's is none: it may hold what the callback takes.
#[apply(every_device)]
fn closed_device_takes_no_callbacks(#[case] on: On) {
    let rig = on.open();
    let stream = rig.client().stream();
    let values = stream.create(&[0_u32]).unwrap();
    match rig.driver {
        Some(driver) => drop(driver.close()),
        None => drop(rig.device.close(Duration::from_secs(60))),
    }
    let mut answer = stream.read(&values);
    let taken = answer.try_on_ready(|_| panic!("it is called"));
    assert!(matches!(taken, Err(Error::Closed)));
    assert!(matches!(answer.wait(), Err(Error::Closed)));
    let taken = stream.read(&values).on_ready(|_| panic!("it is called"));
    assert!(matches!(taken, Err(Error::Closed)));
}

/// I10: a close whose time is up tells what is left, and that is freed and joined once it has ended.
#[rstest]
#[case::cpu(On::Cpu)]
#[case::sim(On::Sim)]
#[case::tiny(On::Tiny)]
fn close_that_runs_out_of_time_reports_what_is_left_and_ends_it_later(#[case] on: On) {
    let threads = Arc::new(());
    let counted = threads.clone();
    let options = DeviceOptions::default().spawn_with(move |body| {
        let counted = counted.clone();
        std::thread::spawn(move || {
            body.run();
            drop(counted);
        });
        Ok(())
    });
    let rig = on.open_with(options);
    let stream = rig.client().stream();
    let values = stream.create(&[7_u32; 1_000]).unwrap();
    stream.sync().wait().unwrap();
    let (value, alive) = (Arc::new(()), Arc::new(()));
    let weak = Arc::downgrade(&alive);
    let valve = Valve::new();
    let held = valve.clone();
    let slow = move || {
        held.pass();
        drop(value);
    };
    stream.host("slow", (), slow).unwrap();
    stream.drop_after(alive).unwrap();
    let behind = stream.read(&values);
    valve.wait_for_arrivals(1);
    let report = rig.device.close(Duration::from_millis(20));
    // The device's thread, the collector, and the thread of the host function, at least.
    assert!(!report.drained && report.threads_left >= 3, "{report:?}");
    assert!(
        report.bytes_left > 0 && report.bytes_freed == 0,
        "{report:?}"
    );
    assert!(report.tasks_left >= 3, "{report:?}");
    assert!(matches!(behind.wait(), Err(Error::Closed)));
    let running = Arc::strong_count(&threads);
    assert!(running > 3, "{running}");
    valve.open();
    // All that holds the options goes, and all threads do: a test that hangs here has found that they do not.
    drop((rig, stream, values));
    while Arc::strong_count(&threads) > 1 || weak.strong_count() > 0 {
        std::thread::yield_now();
    }
}

/// A waker is foreign code on a thread of the runtime: its panic stays with it.
#[test]
fn a_waker_that_panics_harms_nobody() {
    struct Bad;
    impl std::task::Wake for Bad {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new("bad waker"));
        }
    }
    let rig = On::Cpu.open();
    let client = rig.client();
    let valve = rig.valve();
    let (held, stream) = (held(&client, &valve), client.stream());
    let values = stream.create(&[0_u32]).unwrap();
    held.launch(&stream, &values).unwrap();
    valve.wait_for_arrivals(1);
    let mut answer = stream.read(&values);
    let waker = std::task::Waker::from(Arc::new(Bad));
    let mut context = std::task::Context::from_waker(&waker);
    while answer.try_take().is_none()
        && std::future::Future::poll(std::pin::Pin::new(&mut answer), &mut context).is_pending()
    {
        valve.open();
    }
    assert_eq!(stream.read(&values).wait().unwrap(), [1]);
}

/// I4: a guard that outlives a close still has its memory; what it held back is reported as left.
#[apply(every_device)]
fn a_guard_that_outlives_the_device_keeps_its_memory(#[case] on: On) {
    let rig = on.open();
    let stream = rig.client().stream();
    let values = stream.create(&[7_u32; 1_000]).unwrap();
    let guard = on.guard(&stream, (read(&values),)).unwrap();
    rig.checked.expects_leaks();
    let report = match rig.driver {
        Some(driver) => driver.close(),
        None => rig.device.close(Duration::from_millis(20)),
    };
    assert!(!report.drained && report.tasks_left == 1, "{report:?}");
    assert_eq!(guard.words(), [7; 1_000]);
}

//! Opening and closing devices, and leaks (I5, I9, I10).

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use millstream::{DeviceOptions, Error, Kernel, device::Feature, read, update};

use crate::subject::Mode;
use crate::support::*;

/// The abilities that a subject declares agree with the properties of its device.
pub(crate) fn device_properties_match_the_declared_abilities(on: On) {
    let (rig, abilities) = (on.open(), on.abilities());
    let properties = rig.device.properties();
    assert_eq!(
        (abilities.rust_kernels, abilities.one_queue),
        (
            properties.has(Feature::NativeKernels),
            properties.queues == 1
        )
    );
    assert!(!abilities.queues_overlap || properties.queues > 1);
    assert!(!abilities.dynamic_counts || properties.has(Feature::DynamicCubeCount));
    assert_eq!(rig.driver.is_some(), on.mode() == Mode::Driven);
    if on.mode() == Mode::OneQueue {
        assert_eq!(properties.queues, 1);
    }
}

/// I10: a close drains all work and frees all slices and threads.
pub(crate) fn dropping_every_client_with_work_in_flight_drains_and_leaks_nothing(on: On) {
    let ran = Arc::new(AtomicU32::new(0));
    let rig = on.open();
    {
        let client = rig.client();
        let counter = ran.clone();
        let count = Kernel::new("add_one")
            .updates::<u32>("v")
            .scalar::<u32>("n")
            .native(move |_, _| {
                counter.fetch_add(1, Ordering::Relaxed);
            });
        let count = prepare(&client, count).unwrap();
        for _ in 0..50 {
            let stream = client.new_stream();
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
    match on.runs_rust() {
        true => assert_eq!(ran.load(Ordering::Relaxed), 200),
        false => assert!(rig.checks.kernels_run("add_one").is_none_or(|of| of == 200)),
    }
    assert_eq!(
        Arc::strong_count(&ran),
        1,
        "the kernel's closure was not dropped"
    );
}

/// I5: after the close every call returns `Closed` at once.
pub(crate) fn calls_on_a_closed_device_return_closed(on: On) {
    let rig = on.open();
    let client = rig.client();
    let (stream, add_one) = (client.new_stream(), add_one(&client));
    let values = stream.create(&[0_u32]).unwrap();
    let before = stream.read(&values);
    match rig.driver {
        None => drop(rig.device.close(Duration::from_secs(60))),
        Some(driver) => drop(driver),
    }
    assert_eq!(
        before.wait().unwrap(),
        [0],
        "a request from before the close is answered"
    );
    assert!(matches!(
        launch_update(&stream, &add_one, &values),
        Err(Error::Closed)
    ));
    assert!(matches!(stream.read(&values).wait(), Err(Error::Closed)));
    assert!(matches!(stream.empty::<u32>(1), Err(Error::Closed)));
    assert!(matches!(client.sync().wait(), Err(Error::Closed)));
    assert!(matches!(client.new_stream().flush(), Err(Error::Closed)));
    let late = Kernel::new("set")
        .writes::<u32>("dst")
        .scalar::<u32>("value")
        .scalar::<u32>("n")
        .native(|_, _| {});
    assert!(matches!(prepare(&client, late), Err(Error::Closed)));
    drop((values, stream, client));
}

/// I5: a close that cannot drain ends within its time limit and answers the callers that wait.
pub(crate) fn a_close_with_work_that_does_not_end_reports_it_in_time(on: On) {
    let rig = on.open();
    let client = rig.client();
    let valve = rig.valve();
    let (held, stream) = (held(&client, &valve), client.new_stream());
    let values = stream.create(&[0_u32]).unwrap();
    held.launch(&stream, &values).unwrap();
    valve.wait_for_arrivals(1);
    let answer = stream.read(&values);
    rig.checks.expects_leaks();
    let report = rig.device.close(Duration::from_millis(20));
    assert!(!report.drained && report.threads_left >= 1, "{report:?}");
    assert!(matches!(answer.wait(), Err(Error::Closed)));
    valve.open();
}

/// Devices share no state.
pub(crate) fn two_devices_in_one_process_are_independent(on: On) {
    let (first, second) = (on.open(), on.open());
    let (a, b) = (first.client(), second.client());
    let (add_a, add_b) = (add_one(&a), add_one(&b));
    let (stream_a, stream_b) = (a.new_stream(), b.new_stream());
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

/// I6: the GC thread drops a value after the stream's point has passed.
pub(crate) fn a_value_is_dropped_after_the_streams_point_and_not_before(on: On) {
    let mut rig = on.open();
    let client = rig.client();
    let stream = client.new_stream();
    let values = stream.create(&[0_u32]).unwrap();
    let guard = on.guard(&stream, (update(&values),)).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    struct SendOnDrop(std::sync::mpsc::Sender<()>);
    impl Drop for SendOnDrop {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
        }
    }
    stream.drop_after(SendOnDrop(sender)).unwrap();
    assert!(receiver.try_recv().is_err());
    drop(guard);
    stream.sync().wait().unwrap();
    if let Some(driver) = &mut rig.driver {
        while driver.pump(Duration::from_millis(1)) {}
    }
    receiver.recv().unwrap();
}

/// I6: a destructor may wait, for example for a lock that is held by a thread that waits for the device. It delays no
/// caller.
pub(crate) fn destructor_that_blocks_holds_up_no_caller_i6(on: On) {
    struct Blocks(std::sync::mpsc::Sender<()>, std::sync::mpsc::Receiver<()>);
    impl Drop for Blocks {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
            self.1.recv_timeout(PATIENCE).unwrap();
        }
    }
    let rig = on.open();
    let client = rig.client();
    let (stream, other) = (client.new_stream(), client.new_stream());
    let values = other.create(&[7_u32]).unwrap();
    let (start, started) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel();
    stream.drop_after(Blocks(start, released)).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A driven device is run by the threads that wait for it.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                rig.device.sync().wait().unwrap();
            }
        });
        started.recv_timeout(PATIENCE).unwrap();
        let answer = other.read(&values).wait_timeout(PATIENCE);
        release.send(()).unwrap();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(answer.unwrap(), [7]);
    });
}

/// I12: handles beyond the limit are an error, and dropping handles makes room.
pub(crate) fn handles_beyond_the_limit_are_an_error(on: On) {
    let rig = on.open_with(DeviceOptions::default().max_handles(16));
    let stream = rig.client().new_stream();
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
            .contains("all 16 slots of the device are taken by live slices"),
        "{error}"
    );
    handles.clear();
    stream.sync().wait().unwrap();
    assert!(stream.empty::<u8>(1).is_ok());
}

/// A closed device has no thread for user code. It does not run callbacks on the caller's thread, which may hold a lock
/// that the callback takes.
pub(crate) fn closed_device_refuses_callbacks(on: On) {
    let rig = on.open();
    let stream = rig.client().new_stream();
    let values = stream.create(&[0_u32]).unwrap();
    match rig.driver {
        Some(driver) => drop(driver.close()),
        None => drop(rig.device.close(Duration::from_secs(60))),
    }
    let mut answer = stream.read(&values);
    let refused = answer.try_on_ready(|_| panic!("the callback ran"));
    assert!(matches!(refused.unwrap_err().error, Error::Closed));
    assert!(matches!(answer.wait(), Err(Error::Closed)));
    let refused = stream
        .read(&values)
        .on_ready(|_| panic!("the callback ran"));
    let (answer, _callback) = refused.unwrap_err().value;
    assert!(matches!(answer.wait(), Err(Error::Closed)));
}

/// I10: a close that times out reports what is left, which is freed and joined once the unfinished work has ended.
pub(crate) fn close_that_times_out_reports_the_rest_and_frees_it_later(on: On) {
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
    let stream = rig.client().new_stream();
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
    // At least the device thread, the GC thread and the thread of the host function.
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
    // Two references are left: that of this test and that of the `spawn_with` function. If the loop never ends, a
    // thread of the device does not end.
    while Arc::strong_count(&threads) > 2 || weak.strong_count() > 0 {
        std::thread::yield_now();
    }
    drop((stream, values));
    drop(rig);
}

/// Sends the name of the thread that drops it, and then waits for the test.
struct Blocks(mpsc::Sender<Option<String>>, mpsc::Receiver<()>);

impl Drop for Blocks {
    fn drop(&mut self) {
        let thread = std::thread::current();
        self.0.send(thread.name().map(str::to_owned)).ok();
        // Bounded, so that a test that fails ends.
        let _ = self.1.recv_timeout(PATIENCE);
    }
}

/// I6: the code of a task that a close does not run is dropped on a thread for user code. There a destructor may block
/// without delaying the close.
pub(crate) fn code_that_a_close_leaves_is_dropped_on_a_thread_for_user_code_i6(on: On) {
    let rig = on.open();
    let stream = rig.client().new_stream();
    let values = stream.create(&[7_u32]).unwrap();
    let valve = Valve::new();
    let held = valve.clone();
    stream.host("slow", (), move || held.pass()).unwrap();
    let ((sender, dropped), (release, released)) = (mpsc::channel(), mpsc::channel());
    let owned = Blocks(sender, released);
    stream.host("late", (), move || drop(owned)).unwrap();
    let behind = stream.read(&values);
    valve.wait_for_arrivals(1);
    // The device's thread frees the rest some time after the host function has ended.
    rig.checks.expects_leaks();
    let report = rig.device.close(Duration::from_millis(20));
    assert!(!report.drained && report.tasks_left >= 2, "{report:?}");
    assert!(matches!(behind.wait(), Err(Error::Closed)));
    let thread = dropped.recv_timeout(PATIENCE).unwrap();
    drop(release);
    valve.open();
    assert_eq!(thread.as_deref(), Some("millstream-host"));
}

/// I4, I10: a guard that outlives a close keeps its memory, and the close reports the held task as left. On a driven
/// device dropping the guard frees everything; the device's checks verify that.
pub(crate) fn a_guard_that_outlives_the_device_keeps_its_memory(on: On) {
    let rig = on.open();
    let stream = rig.client().new_stream();
    let values = stream.create(&[7_u32; 1_000]).unwrap();
    let guard = on.guard(&stream, (read(&values),)).unwrap();
    if rig.driver.is_none() {
        // The device's thread frees the rest some time after the guard is dropped.
        rig.checks.expects_leaks();
    }
    let report = match rig.driver {
        Some(driver) => driver.close(),
        None => rig.device.close(Duration::from_millis(20)),
    };
    assert!(!report.drained && report.tasks_left == 1, "{report:?}");
    assert_eq!(guard.words(), [7; 1_000]);
}

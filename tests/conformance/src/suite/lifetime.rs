//! Opening and closing devices, and leaks (I5, I9, I10).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use millstream::{DeviceOptions, Kernel, device::Feature, read};

use crate::subject::Mode;
use crate::support::*;

/// The abilities that a subject declares agree with the properties of its device.
pub(crate) fn device_properties_match_the_declared_abilities(on: On) {
    let (rig, abilities) = (on.open(), on.abilities());
    let properties = rig.device.properties();
    let runs_rust = properties.has(Feature::NativeKernels);
    assert_eq!(abilities.rust_kernels, runs_rust);
    assert_eq!(abilities.one_queue, properties.queues == 1);
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
    let mut rig = on.open();
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
            let values = stream.put(&[0_u32; 64]);
            for _ in 0..4 {
                launch_update(&stream, &count, &values).unwrap();
            }
        }
    }
    let report = rig.close(PATIENCE);
    assert!(report.drained && report.bytes_freed > 0, "{report:?}");
    let left = (report.tasks_left, report.slices_held, report.threads_left);
    assert_eq!(left, (0, 0, 0));
    match on.runs_rust() {
        true => assert_eq!(ran.load(Ordering::Relaxed), 200),
        false => assert!(rig.checks.kernels_run("add_one").is_none_or(|of| of == 200)),
    }
    assert_eq!(Arc::strong_count(&ran), 1, "the closure was not dropped");
}

/// I5: after the close every call returns `Closed` at once.
pub(crate) fn calls_on_a_closed_device_return_closed(on: On) {
    let (rig, client, stream) = on.start();
    let add_one = add_one(&client);
    let values = stream.put(&[0_u32]);
    let before = stream.read(&values);
    match rig.driver {
        None => drop(rig.device.close(PATIENCE)),
        Some(driver) => drop(driver),
    }
    // A request from before the close is answered.
    assert_eq!(before.wait().unwrap(), [0]);
    assert_closed(launch_update(&stream, &add_one, &values));
    assert_closed(stream.read(&values).wait());
    assert_closed(stream.empty::<u32>(1));
    assert_closed(client.sync().wait());
    assert_closed(client.new_stream().flush());
    let late = Kernel::new("set")
        .writes::<u32>("dst")
        .scalar::<u32>("value")
        .scalar::<u32>("n")
        .native(|_, _| {});
    assert_closed(prepare(&client, late));
}

/// I5: a close that cannot drain ends within its time limit and answers the callers that wait.
/// Needs: Threads, HeldKernels, LeavesTasksBehind.
pub(crate) fn a_close_with_work_that_does_not_end_reports_it_in_time(on: On) {
    let (rig, client, stream) = on.start();
    let valve = rig.valve();
    let held = held(&client, &valve);
    let values = stream.put(&[0_u32]);
    held.launch(&stream, &values).unwrap();
    valve.wait_for_arrivals(1);
    let answer = stream.read(&values);
    rig.checks.expects_leaks();
    let report = rig.device.close(Duration::from_millis(20));
    assert!(!report.drained && report.threads_left >= 1, "{report:?}");
    assert_closed(answer.wait());
    valve.open();
}

/// Devices share no state.
pub(crate) fn two_devices_in_one_process_are_independent(on: On) {
    let (first, second) = (on.open(), on.open());
    let (a, b) = (first.client(), second.client());
    let (add_a, add_b) = (add_one(&a), add_one(&b));
    let (stream_a, stream_b) = (a.new_stream(), b.new_stream());
    let values_a = stream_a.put(&[0_u32]);
    let values_b = stream_b.put(&[100_u32]);
    for _ in 0..100 {
        launch_update(&stream_a, &add_a, &values_a).unwrap();
        launch_update(&stream_b, &add_b, &values_b).unwrap();
    }
    assert_eq!(stream_a.get(&values_a), [100]);
    drop(first);
    assert_eq!(stream_b.get(&values_b), [200]);
}

/// I6: the GC thread drops a value after the stream's point has passed.
pub(crate) fn a_value_is_dropped_after_the_streams_point_and_not_before(on: On) {
    let (mut rig, _, stream) = on.start();
    let (_values, guard) = on.put_held(&stream, &[0_u32]);
    let (value, dropped) = SendsOnDrop::new();
    stream.drop_after(value).unwrap();
    assert!(dropped.try_recv().is_err());
    drop(guard);
    stream.drain();
    rig.pump();
    dropped.recv().unwrap();
}

/// I6: a destructor may wait, for example for a lock that is held by a thread that waits for the device. It delays no
/// caller.
pub(crate) fn destructor_that_blocks_holds_up_no_caller_i6(on: On) {
    let (rig, client, stream) = on.start();
    let other = client.new_stream();
    let values = other.put(&[7_u32]);
    let (blocks, started, release) = BlocksOnDrop::new();
    stream.drop_after(blocks).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A driven device is run by the threads that wait for it.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                rig.device.drain();
            }
        });
        started.recv_timeout(PATIENCE).unwrap();
        let answer = other.read(&values).wait_timeout(PATIENCE);
        drop(release);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(answer.unwrap(), [7]);
    });
}

/// A closed device has no thread for user code. It does not run callbacks on the caller's thread, which may hold a lock
/// that the callback takes.
pub(crate) fn closed_device_refuses_callbacks(on: On) {
    let (mut rig, _, stream) = on.start();
    let values = stream.put(&[0_u32]);
    rig.close(PATIENCE);
    let mut answer = stream.read(&values);
    assert_closed(answer.try_on_ready(|_| panic!("the callback ran")));
    assert_closed(answer.wait());
    let answer = stream.read(&values);
    let refused = answer.on_ready(|_| panic!("the callback ran"));
    let (answer, _callback) = refused.unwrap_err().value;
    assert_closed(answer.wait());
}

/// I10: a close that times out reports what is left, which is freed and joined once the unfinished work has ended.
/// Needs: Threads.
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
    let (rig, _, stream) = on.start_with(options);
    let values = stream.put(&[7_u32; 1_000]);
    stream.drain();
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
    let has_left = report.bytes_left > 0 && report.tasks_left >= 3;
    assert!(has_left && report.bytes_freed == 0, "{report:?}");
    assert_closed(behind.wait());
    let running = Arc::strong_count(&threads);
    assert!(running > 3, "{running}");
    valve.open();
    // Two references are left: that of this test and that of the `spawn_with` function. If the loop never ends, a
    // thread of the device does not end.
    while Arc::strong_count(&threads) > 2 || weak.strong_count() > 0 {
        std::thread::yield_now();
    }
}

/// I6: the code of a task that a close does not run is dropped on a thread for user code. There a destructor may block
/// without delaying the close.
/// Needs: Threads.
pub(crate) fn code_that_a_close_leaves_is_dropped_on_a_thread_for_user_code_i6(on: On) {
    let (rig, _, stream) = on.start();
    let values = stream.put(&[7_u32]);
    let valve = Valve::new();
    let held = valve.clone();
    stream.host("slow", (), move || held.pass()).unwrap();
    let (owned, dropped, release) = BlocksOnDrop::new();
    stream.host("late", (), move || drop(owned)).unwrap();
    let behind = stream.read(&values);
    valve.wait_for_arrivals(1);
    // The device's thread frees the rest some time after the host function has ended.
    rig.checks.expects_leaks();
    let report = rig.device.close(Duration::from_millis(20));
    assert!(!report.drained && report.tasks_left >= 2, "{report:?}");
    assert_closed(behind.wait());
    let thread = dropped.recv_timeout(PATIENCE).unwrap();
    drop(release);
    valve.open();
    assert_eq!(thread.as_deref(), Some("millstream-host"));
}

/// I4, I10: a guard that outlives a close keeps its memory, and the close reports the held task as left. On a driven
/// device dropping the guard frees everything; the device's checks verify that.
pub(crate) fn a_guard_that_outlives_the_device_keeps_its_memory(on: On) {
    let (mut rig, _, stream) = on.start();
    let values = stream.put(&[7_u32; 1_000]);
    let guard = on.guard(&stream, (read(&values),)).unwrap();
    if rig.driver.is_none() {
        // The device's thread frees the rest some time after the guard is dropped.
        rig.checks.expects_leaks();
    }
    let report = rig.close(Duration::from_millis(20));
    assert!(!report.drained && report.tasks_left == 1, "{report:?}");
    assert_eq!(guard.words(), [7; 1_000]);
}

//! Reopening a lost device: its clients go on, and objects of the lost epoch return `DeviceLost` (I5, I7).

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

use millstream::{Cpu, Error, Health, Kernel, device::Recovery, error::ReopenError, read};
use rstest::rstest;
use rstest_reuse::apply;

use crate::altered::{Altered, Change};
use crate::loss_rig::*;
use crate::support::{
    Drain, PATIENCE, Sure, Valve, add_one, held, in_place, launch_update, make_waits_expected, one,
};

/// I5, I7: a reopened device works, and objects of the lost epoch return a typed error at once.
#[apply(every_device)]
fn reopened_device_works_and_old_handles_return_device_lost(#[case] on: On) {
    let (mut rig, switch) = open(on, Recovery::SameProcess);
    let client = rig.client();
    for epoch in 0..3 {
        let (stream, add_one) = (client.new_stream(), add_one(&client));
        let values = stream.put(&[1_u32; 1_000]);
        let step = stream.record(|r| r.launch(&add_one, one(), in_place(&values)));
        let step = step.unwrap();
        launch_update(&stream, &add_one, &values).unwrap();
        step.replay(&stream).unwrap();
        assert_eq!(stream.get(&values), [3; 1_000]);
        lose(&mut rig, &switch);
        assert_eq!(lost_epoch(rig.client().sync().wait()), epoch);
        assert_eq!(lost_epoch(client.new_stream().flush()), epoch);

        let report = rig.device.reopen().unwrap();
        assert_eq!((report.threads_left, report.bytes_left), (0, 0));
        assert_eq!(rig.device.health(), Health::Running { epoch: epoch + 1 });
        let fresh = client.new_stream();
        let others = fresh.put(&[5_u32; 1_000]);
        let late = fresh.host("late", (read(&values),), || ());
        let old = [
            launch_update(&stream, &add_one, &values),
            launch_update(&stream.nowait(), &add_one, &values),
            launch_update(&fresh, &add_one, &values),
            launch_update(&fresh, &self::add_one(&client), &values),
            launch_update(&stream, &add_one, &others),
            stream.read(&values).wait().map(drop),
            fresh.read(&values).wait().map(drop),
            fresh.fill(&values, 1),
            fresh.copy(&others, &values),
            stream.fill(&others, 1),
            late.map_err(Error::from),
            step.replay(&stream),
            step.replay(&fresh),
            stream.empty::<u32>(1).map(drop),
            stream.sync().wait(),
        ];
        assert_eq!(old.map(lost_epoch), [epoch; 15]);
        assert_eq!(fresh.get(&others), [5; 1_000]);
    }
    assert_eq!(switch.freed_lost.load(Ordering::SeqCst), 0);
    assert_eq!(switch.dropped.load(Ordering::SeqCst), 3);
    let report = close(rig);
    assert!(report.drained, "{report:?}");
    assert_eq!(switch.opened.load(Ordering::SeqCst), 4);
    assert_eq!(switch.dropped.load(Ordering::SeqCst), 4);
}

/// I10: a recording that is kept after a loss keeps nothing of the lost epoch alive.
#[apply(every_device)]
fn recording_of_a_lost_epoch_does_not_keep_it_alive_i10(#[case] on: On) {
    let (mut rig, switch) = open(on, Recovery::SameProcess);
    let held = Arc::strong_count(&switch);
    let recording = {
        let (client, stream) = (rig.client(), rig.client().new_stream());
        let values = stream.put(&[1_u32; 8]);
        let add_one = add_one(&client);
        let recording = stream.record(|r| r.launch(&add_one, one(), in_place(&values)));
        recording.unwrap()
    };
    rig.device.drain();
    lose(&mut rig, &switch);
    rig.device.reopen().unwrap();
    assert_eq!(Arc::strong_count(&switch), held);
    let stream = rig.client().new_stream();
    assert_eq!(lost_epoch(recording.replay(&stream)), 0);
}

/// A client keeps its hard limit: the charge of the lost epoch is credited, once.
#[apply(every_device)]
fn hard_limit_is_credited_after_a_reopening(#[case] on: On) {
    let (mut rig, switch) = open(on, Recovery::SameProcess);
    let client = rig.device.client_builder().hard_limit(1 << 20).build();
    let stream = client.new_stream();
    let kept = stream.empty::<u8>(1 << 20).unwrap();
    stream.drain();
    assert!(matches!(stream.empty::<u8>(1), Err(Error::Memory(_))));
    lose(&mut rig, &switch);
    rig.device.reopen().unwrap();
    let fresh = client.new_stream();
    let all = fresh.empty::<u8>(1 << 20).unwrap();
    drop(kept);
    assert!(matches!(fresh.empty::<u8>(1), Err(Error::Memory(_))));
    drop(all);
    assert!(fresh.empty::<u8>(1 << 20).is_ok());
}

/// Changes of a device's health are reported without polling.
#[apply(every_device)]
fn the_health_of_a_device_can_be_watched(#[case] on: On) {
    let (mut rig, switch) = open(on, Recovery::SameProcess);
    let mut watch = rig.device.watch_health();
    assert_eq!(watch.health(), Health::Running { epoch: 0 });
    let health = watch.health();
    assert_eq!(rig.device.reopen(), Err(ReopenError::NotLost { health }));
    lose(&mut rig, &switch);
    let lost = Health::Lost {
        epoch: 0,
        recovery: Recovery::SameProcess,
    };
    assert_eq!(pollster::block_on(watch.changed()), Some(lost));
    rig.device.reopen().unwrap();
    let running = Health::Running { epoch: 1 };
    assert_eq!(watch.wait_timeout(PATIENCE).unwrap(), Some(running));
    let watcher = std::thread::spawn(move || {
        let closed = watch.wait_timeout(PATIENCE).unwrap();
        (closed, watch.wait_timeout(PATIENCE).unwrap())
    });
    close(rig);
    assert_eq!(watcher.join().unwrap(), (Some(Health::Closed), None));
}

/// A device that was closed after its loss cannot be reopened.
#[test]
fn a_closed_device_is_not_reopened() {
    let (mut rig, switch) = open(On::Threads, Recovery::SameProcess);
    lose(&mut rig, &switch);
    rig.device.close(PATIENCE);
    let health = Health::Closed;
    assert_eq!(rig.device.reopen(), Err(ReopenError::NotLost { health }));
}

/// A reopening may pass other options, but only for the same device: clients rely on its properties.
#[apply(every_device)]
fn reopening_with_a_different_device_is_refused(#[case] on: On) {
    let (mut rig, switch) = open(on, Recovery::SameProcess);
    let client = rig.client();
    lose(&mut rig, &switch);
    let another = Altered::new(Cpu::default().queues(3).threads(2), Change::None);
    let refused = rig.device.reopen_with(another).unwrap_err().to_string();
    assert!(refused.contains("`queues` must be "), "{refused}");
    assert!(
        refused.ends_with(", got 3; reopen the same device"),
        "{refused}"
    );
    let of_another_type = Cpu::default().queues(3).threads(2);
    assert!(rig.device.reopen_with(of_another_type).is_err());
    rig.device.reopen().unwrap();
    assert!(client.new_stream().create(&[1_u8]).is_ok());
}

/// I5: a host function that runs during a loss runs to its end. Reopening does not wait for it for ever, and the memory
/// that it may read is kept.
#[apply(every_threaded_device)]
fn user_code_may_run_through_a_loss(#[case] on: On) {
    let (mut rig, switch) = open(on, Recovery::SameProcess);
    let stream = rig.client().new_stream();
    let valve = Valve::new();
    let inside = valve.clone();
    let (sender, ended) = mpsc::channel();
    let long = move || {
        inside.pass();
        sender.send(()).ok();
    };
    stream.host("long", (), long).unwrap();
    valve.wait_for_arrivals(1);
    lose(&mut rig, &switch);
    assert_eq!(lost_epoch(stream.sync().wait_timeout(PATIENCE)), 0);
    let report = rig.device.reopen().unwrap();
    assert!(report.threads_left >= 1, "{report:?}");
    assert_eq!(switch.dropped.load(Ordering::SeqCst), 0);
    let fresh = rig.client().new_stream();
    let values = fresh.put(&[3_u32]);
    assert_eq!(fresh.get(&values), [3]);
    valve.open();
    ended.recv_timeout(PATIENCE).unwrap();
}

/// A panic on the device thread loses the device, which can be reopened.
#[apply(every_threaded_device)]
fn a_panic_of_a_backend_is_a_loss(#[case] on: On) {
    let (mut rig, switch) = open(on, Recovery::NewProcess);
    let (client, stream, add_one) = adder(&rig);
    let values = stream.put(&[0_u32]);
    switch.panic_at_next_launch();
    launch_update(&stream, &add_one, &values).unwrap();
    assert_eq!(lost_epoch(stream.read(&values).wait_timeout(PATIENCE)), 0);
    wait_until_lost(&mut rig);
    rig.device.reopen().unwrap();
    let fresh = client.new_stream();
    let kernel = client.kernel(Kernel::new("k").native(|_, _| {})).unwrap();
    fresh.launch(&kernel, one(), ()).unwrap();
    fresh.sync().wait_timeout(PATIENCE).unwrap();
}

/// I5: a panic in the turn of a caller that steps in loses the device as well, and the caller goes on.
#[apply(every_threaded_device)]
fn a_panic_in_a_callers_turn_is_a_loss(#[case] on: On) {
    let (mut rig, switch) = open(on, Recovery::NewProcess);
    let (client, stream, add_one) = adder(&rig);
    let values = stream.put(&[0_u32]);
    make_waits_expected(&stream);
    switch.panic_at_next_launch();
    // The fill, which is issued before the launch, runs.
    stream.fill(&values, 7_u32).unwrap();
    let _ = launch_update(&stream, &add_one, &values);
    assert_eq!(lost_epoch(stream.sync().wait_timeout(PATIENCE)), 0);
    wait_until_lost(&mut rig);
    rig.device.reopen().unwrap();
    make_waits_expected(&client.new_stream());
}

/// I4: the statistics of the running device include the values and bytes that lost epochs have left behind.
#[apply(every_threaded_device)]
fn statistics_report_the_leftovers_of_lost_epochs(#[case] on: On) {
    let (mut rig, switch) = open(on, Recovery::SameProcess);
    let client = rig.client();
    assert_eq!(rig.device.stats().unwrap().values_parked, 0);
    for epoch in 1..=2 {
        let valve = Valve::new();
        let (held, stream) = (held(&client, &valve), client.new_stream());
        let values = stream.put(&[0_u32]);
        let guard = client.new_stream().get_resource::<Altered>(());
        let guard = guard.wait().unwrap();
        held.launch(&stream, &values).unwrap();
        stream.drop_after(Box::new(7)).unwrap();
        valve.wait_for_arrivals(1);
        lose(&mut rig, &switch);
        let report = rig.device.reopen().unwrap();
        assert_eq!(report.values_parked, 1);
        assert!(report.bytes_left > 0, "a guard may still read the memory");
        let stats = rig.device.stats().unwrap();
        assert_eq!(stats.values_parked, epoch);
        assert_eq!(stats.bytes_left, epoch * report.bytes_left);
        valve.open();
        drop(guard);
    }
}

/// I5: a pending profile of a lost epoch is answered, and its token is unknown in the next epoch.
#[apply(every_device)]
fn profiles_of_a_lost_epoch_are_lost(#[case] on: On) {
    let (mut rig, switch) = open(on, Recovery::SameProcess);
    let (client, stream, add_one) = adder(&rig);
    let values = stream.put(&[1_u32; 1_000]);
    let [pending, forgotten] = [(); 2].map(|()| stream.start_profile().unwrap());
    launch_update(&stream, &add_one, &values).unwrap();
    switch.lose_now();
    launch_update(&stream, &add_one, &values).unwrap();
    let mut answer = stream.end_profile(pending);
    wait_until_lost(&mut rig);
    match answer.wait_timeout(PATIENCE) {
        // Its tasks had completed by then.
        Ok(profile) => assert!(profile.tasks <= 2),
        lost => assert_eq!(lost_epoch(lost), 0),
    }
    assert_eq!(lost_epoch(client.end_profile(forgotten).wait()), 0);
    rig.device.reopen().unwrap();
    for token in [pending, forgotten] {
        let unknown = client.end_profile(token).wait();
        assert!(matches!(unknown, Err(Error::NoProfile { .. })));
    }
    let fresh = client.new_stream();
    let (_, profile) = fresh.profiled(|_| fresh.put(&[1_u32; 8])).unwrap();
    assert_eq!(profile.wait().unwrap().tasks, 1);
}

/// I5: metrics of a lost device return `DeviceLost`, and those of the next epoch start at zero.
#[apply(every_device)]
fn metrics_of_a_reopened_device_start_at_zero(#[case] on: On) {
    let (mut rig, switch) = open(on, Recovery::SameProcess);
    let client = rig.client();
    let (add_one, stream) = (add_one(&client), client.new_stream());
    let values = stream.put(&[1_u32; 4]);
    launch_update(&stream, &add_one, &values).unwrap();
    stream.drain();
    assert_eq!(rig.device.metrics().unwrap().stats.launches, 1);
    lose(&mut rig, &switch);
    assert_eq!(lost_epoch(client.metrics().wait_timeout(PATIENCE)), 0);
    rig.device.reopen().unwrap();
    let fresh = rig.device.metrics().unwrap();
    assert_eq!((fresh.epoch, fresh.stats.launches), (1, 0));
    assert_eq!((fresh.clients.len(), fresh.batch_sizes.count()), (0, 0));
}

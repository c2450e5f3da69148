//! Many calls in flight, and devices and callers that go away meanwhile (I5, I6, I10).

use std::backtrace::Backtrace;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream::{CancelToken, Cpu, Device, DeviceOptions, Kernel, Reason};
use millstream_cluster::{ClusterError, Fleet, Group, Reduction};
use rstest::rstest;

use crate::{Kind, Rig, create, hold, ones, read, refs};

/// I12: ten thousand calls behind a task that has not ended. Then they end one another, also through mailboxes of one
/// message.
#[rstest]
fn ten_thousand_calls_end_one_another(
    #[values(Kind::Cpu, Kind::Sim, Kind::Mixed)] kind: Kind,
    #[values(1, 256)] capacity: usize,
) {
    let options = DeviceOptions::default().mailbox_capacity(capacity);
    let rig = Rig::with_options(kind, 2, 5, &options);
    let (group, buffers) = rig.ones(4);
    let guard = (!matches!(kind, Kind::Sim)).then(|| rig.hold(0, &buffers[0]));
    for _ in 0..10_000 {
        group.all_reduce(Reduction::Max, &refs(&buffers)).unwrap();
    }
    group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    drop(guard);
    assert_eq!(read(&group, &buffers), vec![vec![2; 4]; 2]);
}

/// Calls until the devices are closed. Cancels some, gives up on some answers, and keeps some until the end.
fn call_until_closed(group: &Group, number: usize, calls: &AtomicU64) {
    let created: Result<Vec<_>, _> = (0..group.len())
        .map(|member| group.stream(member).create(&[1_u32; 8]))
        .collect();
    let Ok(buffers) = created else {
        return;
    };
    let mut kept = Vec::new();
    for call in 0.. {
        let token = CancelToken::new();
        let bound = group.with_cancel(&token);
        let called = match call % 3 {
            0 => bound.broadcast(call % group.len(), &refs(&buffers)),
            1 => bound.send(1, &buffers[0]),
            _ => bound.all_reduce(Reduction::Max, &refs(&buffers)),
        };
        if call % 2 == number % 2 {
            token.cancel();
        }
        match called {
            Ok(()) => {}
            Err(ClusterError::Refused { .. }) => break,
            Err(other) => panic!("{other}"),
        }
        let mut answer = group.stream(call % 2).read(&buffers[call % 2]);
        if call % 5 == 0 {
            _ = answer.wait_timeout(Duration::from_micros(1));
        }
        if call % 7 == 0 {
            kept.push(answer);
        }
        calls.fetch_add(1, Ordering::Relaxed);
    }
    for answer in kept {
        if let Err(error) = answer.wait()
            && let Some(failure) = error.failure()
        {
            let reason = &failure.root().reason;
            let expected = matches!(reason, Reason::Cancelled | Reason::Closed);
            assert!(expected, "{failure}");
        }
    }
}

/// I5, I10: no answer is missing after a fleet is dropped while threads call.
#[rstest]
fn a_fleet_is_dropped_while_threads_call_and_cancel(
    #[values(Kind::Cpu, Kind::Sim, Kind::Mixed)] kind: Kind,
) {
    for round in (0..60).step_by(3) {
        let options = DeviceOptions::default().mailbox_capacity(2);
        let rig = Rig::with_options(kind, 3, round, &options);
        let groups = [
            rig.fleet.group(),
            rig.fleet.group_of(&[2, 0]).unwrap(),
            rig.fleet.group_of(&[1, 2]).unwrap(),
        ];
        let calls = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for (number, group) in groups.into_iter().enumerate() {
                let calls = &calls;
                scope.spawn(move || call_until_closed(&group, number, calls));
            }
            while calls.load(Ordering::Relaxed) < 3 * round {
                std::thread::yield_now();
            }
            drop(rig);
        });
    }
}

/// I5: a device is closed too early for parts that have begun.
#[rstest]
fn a_device_is_closed_with_a_part_that_has_begun(#[values(0, 1)] closed: usize) {
    let rig = Rig::new(Kind::Cpu, 2);
    let (group, buffers) = rig.ones(4);
    let guard = rig.hold(1 - closed, &buffers[1 - closed]);
    for _ in 0..10 {
        group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    }
    let report = rig.fleet.devices()[closed].close(Duration::ZERO);
    assert_eq!((report.drained, report.tasks_left), (false, 10));
    drop(guard);
    let answer = group.stream(1 - closed).read(&buffers[1 - closed]).wait();
    let error = answer.unwrap_err();
    assert_eq!(error.failure().unwrap().root().reason, Reason::Closed);
}

/// I5: a fleet with a driven device is dropped, before or after the driver, with a call that the device has not begun.
#[rstest]
fn a_fleet_is_dropped_with_a_call_that_its_driven_device_has_not_begun(
    #[values(0, 1)] driven: usize,
    #[values(false, true)] driver_first: bool,
) {
    let (device, driver) = Device::open_driven(Cpu::default(), DeviceOptions::default()).unwrap();
    let mut devices = vec![Device::open(Cpu::default()).unwrap()];
    devices.insert(driven, device);
    let fleet = Fleet::new(devices).unwrap();
    let (group, buffers) = ones(&fleet, 4);
    group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    if driver_first {
        drop(driver);
        drop(fleet);
    } else {
        drop(fleet);
        drop(driver);
    }
    for (member, buffer) in buffers.iter().enumerate() {
        assert!(group.stream(member).read(buffer).wait().is_err());
    }
}

/// Notes where it is dropped.
struct Noted(Arc<Mutex<Option<String>>>);

impl Drop for Noted {
    fn drop(&mut self) {
        *self.0.lock().unwrap() = Some(Backtrace::force_capture().to_string());
    }
}

/// User code does not run within a turn of a device: here the destructor of a kernel of another device, a driven one that
/// was closed while its part was in flight.
#[test]
fn a_closed_driven_device_is_not_freed_within_a_turn() {
    let (device, mut driver) =
        Device::open_driven(Cpu::default(), DeviceOptions::default()).unwrap();
    let fleet = Fleet::new([Device::open(Cpu::default()).unwrap(), device]).unwrap();
    let group = fleet.group();
    let place = Arc::default();
    let noted = Noted(Arc::clone(&place));
    let kernel = Kernel::new("noted")
        .updates::<u32>("v")
        .native(move |_, _| _ = &noted);
    let kernel = fleet.devices()[1].new_client().kernel(kernel).unwrap();
    let buffers = create(&group, &vec![vec![1_u32; 4]; 2]);
    let guard = hold(&fleet, 0, &buffers[0]);
    group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
    while driver.pump(Duration::ZERO) {}
    assert!(!fleet.devices()[1].close(Duration::ZERO).drained);
    drop((kernel, guard));
    assert_eq!(
        group.stream(0).read(&buffers[0]).wait().unwrap(),
        [2_u32; 4]
    );
    while place.lock().unwrap().is_none() {
        std::thread::yield_now();
    }
    let trace = place.lock().unwrap().take().unwrap();
    assert!(!trace.contains("::carry_out"), "{trace}");
}

//! Lost devices: every caller receives the error, and nothing is freed on the device (I5, I6, I10).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream::backend::HostBytes;
use millstream::sim::{Call, Faults, Sim};
use millstream::{
    CancelToken, Device, DeviceOptions, Error, Health, Kernel, device::Recovery,
    error::ReopenError, read, update,
};
use rstest::rstest;
use rstest_reuse::apply;

use crate::altered::Altered;
use crate::loss_rig::*;
use crate::support::{
    self, Drain, PATIENCE, SendsOnDrop, Sure, Valve, add_one, held, launch_update,
};

/// I5, I10: if a device is lost at a launch while eight threads use it, each request is answered, and no page is freed
/// on the lost device.
#[apply(every_device)]
fn loss_at_the_nth_launch_answers_every_caller(#[case] on: On) {
    for nth in [1, 2, 7, 40, 150] {
        let (rig, switch) = open(on, Recovery::SameProcess);
        let client = rig.client();
        let add_one = add_one(&client);
        switch.lose_at_launch(nth);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let call_until_lost = || -> Result<(), Error> {
                        let stream = client.new_stream();
                        let values = stream.create(&[0_u32; 100])?;
                        let mut earlier = Vec::new();
                        for round in 1..=50 {
                            launch_update(&stream, &add_one, &values)?;
                            earlier.push((round, stream.read(&values)));
                            if round % 10 == 0 {
                                for (round, mut answer) in earlier.drain(..) {
                                    assert_eq!(answer.wait_timeout(PATIENCE)?, [round; 100]);
                                }
                                stream.sync().wait_timeout(PATIENCE)?;
                            }
                        }
                        Ok(())
                    };
                    match call_until_lost() {
                        Ok(()) | Err(Error::DeviceLost { epoch: 0, .. }) => {}
                        Err(other) => panic!("{other}"),
                    }
                });
            }
        });
        let (epoch, recovery) = (0, Recovery::SameProcess);
        assert_eq!(rig.device.health(), Health::Lost { epoch, recovery });
        assert_eq!(lost_epoch(client.sync().wait_timeout(PATIENCE)), 0);
        assert_eq!(lost_epoch(rig.device.stats()), 0);
        let report = close(rig);
        assert!(!report.drained, "{report:?}");
        assert_eq!((report.threads_left, report.bytes_left), (0, 0));
        assert_eq!(switch.freed_lost.load(Ordering::SeqCst), 0, "I10");
        assert_eq!(switch.dropped.load(Ordering::SeqCst), 1);
    }
}

/// I5: if the device is lost, a dropped slice is no longer charged to its client's hard limit when its slot is
/// recycled, so a later allocation that takes the slot returns the loss.
#[test]
fn recycled_slot_of_a_lost_device_has_no_charge_i5() {
    let sim = Sim::seed(7).faults(Faults::none().lost_at_run(1));
    let (device, mut driver) = Device::open_driven(sim, DeviceOptions::default()).unwrap();
    let client = device.client_builder().hard_limit(1 << 20).build();
    let stream = client.new_stream();
    let values = stream.put(&[1_u32; 4]);
    assert_eq!(lost_epoch(stream.read(&values).wait()), 0);
    drop(values);
    while driver.pump(std::time::Duration::from_millis(1)) {}
    assert_eq!(lost_epoch(stream.create(&[2_u32; 4])), 0);
    assert_eq!(lost_epoch(stream.empty::<u32>(4)), 0);
}

/// I5: a loss that an allocation detects is reported as a loss, not as a lack of memory.
#[apply(every_device)]
fn loss_at_an_allocation_is_reported_as_a_loss(#[case] on: On) {
    let (rig, switch) = open(on, Recovery::NewProcess);
    switch.lose_at_page(1);
    let stream = rig.client().new_stream();
    let values = stream.empty::<u32>(1 << 20).unwrap();
    assert_eq!(lost_epoch(stream.read(&values).wait_timeout(PATIENCE)), 0);
}

/// I5: a loss that no call of the backend reports (the timelines end) reaches every caller that waits: for a readback,
/// a sync, a resource or room in its stream.
#[apply(every_device)]
fn loss_without_a_failed_call_reaches_every_waiting_caller(#[case] on: On) {
    let options = DeviceOptions::default().max_held(4);
    let (rig, switch) = open_with(on, Recovery::SameProcess, options);
    let (client, stream, add_one) = adder(&rig);
    let values = stream.put(&[7_u32; 1_000]);
    let guard = stream.get_resource::<Altered>((update(&values),));
    let guard = guard.wait().unwrap();
    let submitted = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| client.new_stream().read(&values).wait_timeout(PATIENCE));
        let syncer = scope.spawn(|| rig.device.sync().wait_timeout(PATIENCE));
        let resource = scope.spawn(|| {
            let stream = client.new_stream();
            let mut pending = stream.get_resource::<Altered>((read(&values),));
            pending.wait_timeout(PATIENCE).map(drop)
        });
        // The stream holds at most four tasks, so this thread waits for room.
        let sender = scope.spawn(|| -> Result<(), Error> {
            let stream = client.new_stream();
            loop {
                launch_update(&stream, &add_one, &values)?;
                submitted.store(true, Ordering::SeqCst);
            }
        });
        while !submitted.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        switch.lose_now();
        assert_eq!(lost_epoch(reader.join().unwrap()), 0);
        for waits in [syncer, resource, sender] {
            assert_eq!(lost_epoch(waits.join().unwrap()), 0);
        }
    });
    // I4: a guard keeps its memory, even after the device was reopened.
    rig.device.reopen().unwrap();
    assert_eq!(*guard.read::<u32>(0), [7; 1_000]);
    assert_eq!(switch.dropped.load(Ordering::SeqCst), 0);
    drop(guard);
}

/// I10: if only another process can open a lost device again, no page is freed and the backend is not dropped.
#[apply(every_device)]
fn backend_lost_for_the_process_is_neither_freed_nor_dropped(#[case] on: On) {
    let (mut rig, switch) = open(on, Recovery::NewProcess);
    let stream = rig.client().new_stream();
    let values = stream.put(&[1_u32; 1_000]);
    assert_eq!(stream.get(&values), [1; 1_000]);
    lose(&mut rig, &switch);
    assert_eq!(rig.device.reopen(), Err(ReopenError::NewProcess));
    let report = close(rig);
    assert!(report.bytes_left > 0 && !report.drained, "{report:?}");
    assert_eq!(switch.freed_lost.load(Ordering::SeqCst), 0);
    assert_eq!(switch.dropped.load(Ordering::SeqCst), 0);
    // The loss is reported even after a close.
    let lost = stream.empty::<u32>(1);
    let (epoch, recovery) = (0, Recovery::NewProcess);
    assert!(
        matches!(lost, Err(Error::DeviceLost { epoch: of, recovery: by }) if (of, by) == (epoch, recovery))
    );
}

/// I5, I10: an error that invalidates the CUDA context of the process is a loss: every caller receives it, and only
/// another process can open the device again.
#[rstest]
fn broken_gpu_is_lost_for_the_process_i5(
    #[values(support::On::Cuda, support::On::CudaOneQueue, support::On::CudaDriven)]
    on: support::On,
    #[values(1, 5, 20)] nth: u64,
    #[values(700, 719)] code: u32,
) {
    let rig = on.open();
    let Some(session) = support::session(&*rig.checks) else {
        return; // Hardware injects no faults.
    };
    let (client, stream, add_one) = adder(&rig);
    let values = stream.put(&[1_u32; 100]);
    session.break_at(nth, code);
    let mut requests = Vec::new();
    // The driver refuses launches after the break, so the loop may end early.
    while launch_update(&stream, &add_one, &values).is_ok() && requests.len() < 20 {
        requests.push(stream.read(&values));
    }
    for (round, mut answer) in (2_u32..).zip(requests) {
        match answer.wait_timeout(PATIENCE) {
            Ok(answer) => assert_eq!(answer, [round; 100]),
            other => assert_eq!(lost_epoch(other), 0),
        }
    }
    assert_eq!(lost_epoch(client.sync().wait_timeout(PATIENCE)), 0);
    let recovery = Recovery::NewProcess;
    assert_eq!(rig.device.health(), Health::Lost { epoch: 0, recovery });
    assert_eq!(rig.device.reopen(), Err(ReopenError::NewProcess));
}

/// Bytes whose owner reports the thread that drops it.
struct ReportingBytes(
    [u8; 64],
    #[expect(dead_code, reason = "held for its drop")] SendsOnDrop,
);

impl HostBytes for ReportingBytes {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// I6: the owner of bytes that are not copied, because the backend refuses the copy or the upload was withdrawn, is
/// dropped on the GC thread, not on the device thread.
#[test]
fn owner_of_bytes_that_are_not_copied_is_dropped_on_the_gc_thread_i6() {
    let sim = Sim::seed(1).faults(Faults::none().nth(Call::CopyIn, 2));
    let device = Device::open(sim).unwrap();
    let stream = device.new_client().new_stream();
    let values = stream.put(&[0_u8; 64]);
    let token = CancelToken::new();
    token.cancel();
    for stream in [stream.clone(), stream.with_cancel(&token)] {
        let (sends, dropped) = SendsOnDrop::new();
        let owner = ReportingBytes([1; 64], sends);
        assert!(stream.write_from(&values, owner).is_ok());
        let thread = dropped.recv_timeout(PATIENCE).unwrap();
        assert_eq!(thread.as_deref(), Some("millstream-gc"));
        assert!(stream.read(&values).wait_timeout(PATIENCE).is_err());
    }
}

/// I4: after a loss, values that unfinished tasks may use are kept and counted. I6: user code that will not run is
/// dropped on the GC thread, not on the device thread.
#[apply(every_threaded_device)]
fn values_in_use_are_kept_after_a_loss_and_pending_code_is_dropped(#[case] on: On) {
    let (mut rig, switch) = open(on, Recovery::NewProcess);
    let client = rig.client();
    let valve = Valve::new();
    let (held, stream) = (held(&client, &valve), client.new_stream());
    let values = stream.put(&[0_u32]);
    held.launch(&stream, &values).unwrap();
    let (value, value_dropped) = SendsOnDrop::new();
    stream.drop_after(value).unwrap();
    valve.wait_for_arrivals(1);
    let (captured, code_dropped) = SendsOnDrop::new();
    let late = move || {
        drop(captured);
        panic!("the host function ran on a lost device");
    };
    stream.host("late", (), late).unwrap();
    lose(&mut rig, &switch);
    let thread = code_dropped.recv_timeout(PATIENCE).unwrap();
    assert_eq!(thread.as_deref(), Some("millstream-gc"));
    let report = close(rig);
    assert_eq!((report.values_parked, report.tasks_left), (1, 1));
    // The kernel may still use the value.
    assert!(value_dropped.try_recv().is_err());
    valve.open();
}

/// I5, I10: if the device is lost during its close, the close ends, and each request is answered.
#[apply(every_device)]
fn loss_during_close_ends_the_close_and_answers_every_request(#[case] on: On) {
    for nth in 1..=12 {
        let (rig, switch) = open(on, Recovery::SameProcess);
        let client = rig.client();
        let (stream, add_one) = (client.new_stream(), add_one(&client));
        let values = stream.put(&[0_u32; 10]);
        let guard = stream.get_resource::<Altered>((update(&values),));
        let guard = guard.wait().unwrap();
        let answers: Vec<_> = (0..10)
            .map(|_| {
                launch_update(&stream, &add_one, &values).unwrap();
                stream.read(&values)
            })
            .collect();
        switch.lose_at_launch(nth);
        let report = match on {
            // The close of a driven device does not wait for a guard. So the test drops the guard first, and the close
            // issues the tasks that waited for it.
            On::Driven => {
                drop(guard);
                close(rig)
            }
            _ => std::thread::scope(|scope| {
                let closing = scope.spawn(|| close(rig));
                drop(guard);
                closing.join().unwrap()
            }),
        };
        let lost = nth <= 10;
        assert_eq!(report.drained, !lost, "{report:?}");
        assert_eq!((report.threads_left, report.bytes_left), (0, 0));
        for (index, mut answer) in (1_u64..).zip(answers) {
            match answer.wait_timeout(PATIENCE) {
                Ok(values) => assert!(values == [index as u32; 10] && index < nth.min(11)),
                Err(Error::DeviceLost { .. }) => assert!(lost),
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(switch.freed_lost.load(Ordering::SeqCst), 0);
        assert_eq!(switch.dropped.load(Ordering::SeqCst), 1);
    }
}

/// I5: a loss that a compilation detects is a loss of the device: every caller receives it, and the device can be
/// reopened.
#[rstest]
#[case::threads(false)]
#[case::driven(true)]
fn loss_at_a_compilation_is_reported_to_every_caller(#[case] driven: bool) {
    let lost = Sim::seed(1).faults(Faults::none().lost_from(1));
    let (device, _driver) = match driven {
        true => {
            let opened = Device::open_driven(lost, DeviceOptions::default());
            let (device, driver) = opened.unwrap();
            (device, Some(driver))
        }
        false => (Device::open(lost).unwrap(), None),
    };
    let client = device.new_client();
    let kernel = || client.kernel(Kernel::new("k").native(|_, _| {}));
    assert_eq!(lost_epoch(kernel()), 0);
    assert!(matches!(device.health(), Health::Lost { epoch: 0, .. }));
    assert_eq!(lost_epoch(device.sync().wait()), 0);
    device.reopen_with(Sim::seed(1)).unwrap();
    assert!(kernel().is_ok());
}

/// I6: a host function that was ready to run when the device was lost is counted as withdrawn, not as finished.
#[test]
fn host_function_prevented_by_a_loss_is_withdrawn_i6() {
    let (mut rig, switch) = open(On::Driven, Recovery::SameProcess);
    let (client, stream, add_one) = adder(&rig);
    let values = stream.put(&[0_u32]);
    stream.drain();
    let token = CancelToken::new();
    let ran = Arc::new(AtomicBool::new(false));
    let runs = ran.clone();
    // The device admits the host function and the launch in one turn, so it is lost before the host function starts.
    switch.lose_at_launch(1);
    let cancellable = client.new_stream().with_cancel(&token);
    let late = move || runs.store(true, Ordering::SeqCst);
    cancellable.host("late", (), late).unwrap();
    launch_update(&stream, &add_one, &values).unwrap();
    wait_until_lost(&mut rig);
    assert!(!ran.load(Ordering::SeqCst));
    let tally = token.tally();
    assert_eq!((tally.accepted, tally.withdrawn), (1, 1), "{tally:?}");
    assert_eq!((tally.finished, tally.running), (0, 0), "{tally:?}");
}

/// The submission log of a lost device can be taken once, and the reopened device can repeat it.
#[apply(every_device)]
fn submission_log_of_a_lost_device_can_be_taken(#[case] on: On) {
    let options = DeviceOptions::default().log_submissions(1 << 20);
    let (mut rig, switch) = open_with(on, Recovery::SameProcess, options);
    let client = rig.client();
    let (stream, first) = (client.new_stream(), add_one(&client));
    let values = stream.put(&[7_u32; 10]);
    assert_eq!(stream.get(&values), [7; 10]);
    let mut log = rig.device.take_log().unwrap();
    launch_update(&stream, &first, &values).unwrap();
    assert_eq!(stream.get(&values), [8; 10]);
    lose(&mut rig, &switch);
    log.append(&rig.device.take_log().unwrap()).unwrap();
    assert!(log.is_complete());
    // The log was taken already.
    assert_eq!(lost_epoch(rig.device.take_log()), 0);
    rig.device.reopen().unwrap();
    let client = rig.client();
    let replayed = client.resubmit(&log, &[add_one(&client)]).unwrap();
    let last = replayed.readbacks.last().unwrap().bytes.as_ref().unwrap();
    assert_eq!(last[..4], [8, 0, 0, 0]);
}

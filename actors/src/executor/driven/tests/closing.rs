//! A close of a driven device reports once, answers every caller, and leaves nothing alive.

use super::*;

/// I10: one close reports what is left, whichever thread drives the device.
#[test]
fn closing_a_driven_device_reports_once_what_is_left_i10() {
    let (device, driver) = open();
    let stream = device.new_client().new_stream();
    let data = stream.create(&[7_u32; 4]).unwrap();
    let report = device.close(PATIENCE);
    assert_eq!(
        (report.drained, report.slices_held, report.tasks_left),
        (true, 1, 0)
    );
    assert!(!device.close(PATIENCE).drained && !driver.close().drained);
    assert!(matches!(stream.read(&data).wait(), Err(Error::Closed)));
}

/// I5, I10: a close from the device's own host function only starts the close, and does not wait for itself.
#[test]
fn a_host_function_may_close_its_device_i10() {
    let (device, mut driver) = open();
    let device = Arc::new(device);
    let stream = device.new_client().new_stream();
    let own = device.clone();
    let close = move || assert!(!own.close(PATIENCE).drained);
    stream.host("close", (), close).unwrap();
    while driver.pump(Duration::ZERO) {}
    assert!(matches!(stream.create(&[1_u32]), Err(Error::Closed)));
    assert!(driver.close().drained);
}

/// I5, I6, I10: two threads close while others pump and wait: one close reports, and every answer arrives.
#[test]
fn a_contended_close_reports_once_and_answers_every_waiter_i5() {
    for _ in 0..50 {
        let (device, mut driver) = open();
        let client = device.new_client();
        let answers = AtomicUsize::new(0);
        let reports = std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let stream = client.new_stream();
                    // Until the device is closed.
                    while let Ok(data) = stream.create(&[5_u32; 64]) {
                        match stream.read(&data).wait_timeout(PATIENCE) {
                            Ok(elements) => assert_eq!(elements, [5; 64]),
                            Err(Error::Closed | Error::Failed(_)) => {}
                            Err(error) => panic!("{error}"),
                        }
                        answers.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            while answers.load(Ordering::Relaxed) < 10 {
                driver.pump(Duration::ZERO);
            }
            let device = &device;
            let closes = [
                scope.spawn(move || driver.close()),
                scope.spawn(move || device.close(PATIENCE)),
            ];
            closes.map(|close| close.join().unwrap())
        });
        let drained = reports.iter().filter(|report| report.drained).count();
        assert_eq!(drained, 1, "{reports:?}");
    }
}

/// Prepares a kernel that owns `value`, which is dropped with the device.
fn register_an_owner(device: &Device, value: &Arc<()>) -> millstream_client::KernelHandle {
    let value = value.clone();
    let owns = Kernel::new("owns").native(move |_, _| _ = &value);
    device.new_client().kernel(owns).unwrap()
}

/// I10: a guard that outlives the close frees what the close has left, even if nothing else holds the device.
#[test]
fn the_last_guard_of_a_closed_device_frees_it_i10() {
    for alone in [false, true] {
        let (device, driver) = open();
        let stream = device.new_client().new_stream();
        let (value, values) = (Arc::new(()), stream.create(&[7_u32; 8]).unwrap());
        let kernel = register_an_owner(&device, &value);
        let first = stream
            .get_resource::<Cpu>(&[(&values, Access::Read)][..])
            .wait()
            .unwrap();
        let second = device.new_client().new_stream();
        let second = second
            .get_resource::<Cpu>(&[(&values, Access::Read)][..])
            .wait()
            .unwrap();
        let report = driver.close();
        assert!(!report.drained && report.bytes_left > 0, "{report:?}");
        drop(kernel);
        let keeps_device = (!alone).then_some((device, stream, values));
        drop(first);
        assert!(
            Arc::strong_count(&value) > 1,
            "a guard may still access the memory"
        );
        drop(second);
        assert_eq!(Arc::strong_count(&value), 1);
        drop(keeps_device);
    }
}

/// I10: a host function that outlives the close does the same.
#[test]
fn a_host_function_that_ends_after_the_close_frees_the_device_i10() {
    let (device, driver) = open();
    let value = Arc::new(());
    let stream = device.new_client().new_stream();
    let (start, started) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let slow = move || {
        start.send(()).unwrap();
        assert!(ended.recv_timeout(PATIENCE).is_err());
    };
    let kernel = register_an_owner(&device, &value);
    stream.host("slow", (), slow).unwrap();
    std::thread::scope(|scope| {
        let pumps = scope.spawn(|| stream.sync().wait());
        started.recv_timeout(PATIENCE).unwrap();
        let report = device.close(Duration::ZERO);
        assert!(!report.drained && report.tasks_left > 0, "{report:?}");
        drop(kernel);
        assert!(Arc::strong_count(&value) > 1);
        drop(end);
        assert!(matches!(pumps.join().unwrap(), Err(Error::Closed)));
    });
    assert_eq!(Arc::strong_count(&value), 1);
    drop(driver);
}

/// I10: tasks that will not run keep nothing alive.
#[test]
fn tasks_that_a_close_has_no_time_for_are_dropped_with_the_device_i10() {
    let (device, mut driver) = open();
    let value = Arc::new(());
    let stream = device.new_client().new_stream();
    let kernel = register_an_owner(&device, &value);
    let values = stream.create(&[7_u32; 8]).unwrap();
    let behind = stream.read(&values);
    (0..100).for_each(|_| stream.launch(&kernel, CubeCount::single(), ()).unwrap());
    let report = device.close(Duration::ZERO);
    assert_eq!(
        (report.bytes_left, report.threads_left),
        (0, 0),
        "{report:?}"
    );
    drop(kernel);
    assert_eq!(Arc::strong_count(&value), 1, "{report:?}");
    assert!(!driver.pump(Duration::ZERO));
    drop(behind);
}

/// I5, I10: the close answers messages that are still in the mailbox, without waiting for a guard.
#[test]
fn a_close_answers_messages_in_the_mailbox_while_a_guard_is_held_i5() {
    let options = DeviceOptions::default()
        .mailbox_capacity(256)
        .flush_every(4);
    let (device, driver) = Device::open_driven(Cpu::default().queues(2), options).unwrap();
    let (stream, other) = (
        device.new_client().new_stream(),
        device.new_client().new_stream(),
    );
    let (held, data) = (
        stream.create(&[1_u32]).unwrap(),
        other.create(&[2_u32]).unwrap(),
    );
    let guard = stream.get_resource::<Cpu>(&[(&held, Access::Write)][..]);
    let guard = guard.wait().unwrap();
    let value = Arc::new(());
    let mut answers: Vec<_> = (0..100).map(|_| other.read(&data)).collect();
    let own = value.clone();
    other.host("owns", (), move || drop(own)).unwrap();
    let report = device.close(Duration::ZERO);
    assert!(!report.drained && report.tasks_left > 0, "{report:?}");
    assert!(answers.iter_mut().all(|answer| answer.try_take().is_some()));
    drop(guard);
    assert_eq!(Arc::strong_count(&value), 1);
    drop(driver);
}

/// A value whose drop drops the driver, and so closes the device.
struct Owner(Arc<Mutex<Option<Driver>>>);

impl Drop for Owner {
    fn drop(&mut self) {
        let driver = lock(&self.0).take();
        drop(driver);
    }
}

/// I10: a kernel, which runs inside the device, and the destructor of a dropped value may both drop the driver. The
/// device is closed then.
#[test]
fn a_driver_that_is_dropped_by_its_own_device_closes_it_i10() {
    for by_kernel in [false, true] {
        let (device, driver) = open();
        let stream = device.new_client().new_stream();
        let owner = Owner(Arc::new(Mutex::new(Some(driver))));
        let place = owner.0.clone();
        if by_kernel {
            let drops = Kernel::new("drops").native(move |_, _| drop(lock(&owner.0).take()));
            let drops = device.new_client().kernel(drops).unwrap();
            stream.launch(&drops, CubeCount::single(), ()).unwrap();
        } else {
            stream.drop_after(owner).unwrap();
        }
        while lock(&place).is_some() {
            drop(stream.sync().wait());
        }
        assert!(matches!(stream.create(&[1_u32]), Err(Error::Closed)));
        assert!(
            !device.close(PATIENCE).drained,
            "the device was closed before"
        );
    }
}

/// I10: values behind tasks that will not run are dropped with the device, since no task can use what they own.
#[test]
fn values_behind_tasks_that_a_close_has_no_time_for_are_dropped_i10() {
    let (device, _driver) = open();
    let value = Arc::new(());
    let stream = device.new_client().new_stream();
    let long = Kernel::new("long").native(|_, _| spin_for_long());
    let long = device.new_client().kernel(long).unwrap();
    (0..100).for_each(|_| stream.launch(&long, CubeCount::single(), ()).unwrap());
    stream.drop_after(value.clone()).unwrap();
    let report = device.close(Duration::ZERO);
    assert_eq!(
        (report.drained, report.values_parked),
        (false, 0),
        "{report:?}"
    );
    assert_eq!(Arc::strong_count(&value), 1);
}

/// Asks again whatever it is answered, and counts that.
fn ask_again(stream: Stream, asked: Arc<AtomicUsize>) {
    asked.fetch_add(1, Ordering::SeqCst);
    let next = (stream.clone(), asked);
    _ = stream.sync().on_ready(move |_| ask_again(next.0, next.1));
}

/// I5, I10: the close of a device ends, although a callback asks again whatever it is answered.
#[test]
fn a_driver_ends_beside_a_callback_that_asks_again_whatever_it_is_answered_i10() {
    for (guarded, is_late) in [(false, false), (true, false), (false, true)] {
        let (device, driver) = open();
        let stream = device.new_client().new_stream();
        let values = stream.create(&[1_u32]).unwrap();
        let guard = guarded.then(|| {
            let guard = stream.get_resource::<Cpu>(&[(&values, Access::Write)][..]);
            guard.wait().unwrap()
        });
        let asked = Arc::new(AtomicUsize::new(0));
        ask_again(stream.clone(), asked.clone());
        match is_late {
            false => drop(driver),
            true => _ = device.close(Duration::ZERO),
        }
        let before = asked.load(Ordering::SeqCst);
        assert!(before > 0);
        // Later asks are refused at once.
        assert!(stream.sync().on_ready(|_| ()).is_err());
        drop(guard);
        assert_eq!(asked.load(Ordering::SeqCst), before);
    }
}

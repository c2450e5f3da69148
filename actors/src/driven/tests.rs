//! A thread that waits on a driven device drives it, and sleeps if there is nothing to drive.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;
use std::task::Waker;

use millstream_client::arguments::CubeCount;
use millstream_client::{DeviceEpochs, Stream};
use millstream_cpu::{Cpu, CpuDevice};
use millstream_protocol::access::Access;
use millstream_protocol::error::Error;
use millstream_protocol::kernel::Kernel;
use millstream_protocol::options::DeviceOptions;
use millstream_server::server::Effect;
use millstream_sync::timeline::Timeline;

use super::*;
use crate::Device;
use crate::actor::EffectSink;
use crate::epoch::{build_parts, client_state};
use crate::mailbox::EpochEnd;

/// Far longer than any test here takes, so that a hang becomes a failure.
const PATIENCE: Duration = Duration::from_secs(60);

fn open() -> (Device, Driver) {
    Device::open_driven(Cpu::default().queues(2), DeviceOptions::default()).unwrap()
}

/// Blocks until `threads` threads sleep because there is nothing to drive.
fn until_asleep(device: &Device, threads: usize) {
    let driven = device.driven.as_ref().unwrap().current();
    let idle = driven.idle();
    let start = Instant::now();
    while idle.bell.sleepers() != threads {
        assert!(start.elapsed() < PATIENCE, "the threads do not sleep");
        std::thread::yield_now();
    }
}

/// Launches a kernel on memory of its own that ends when a message is sent.
fn launch_a_valve(device: &Device, stream: &Stream) -> (mpsc::Sender<()>, mpsc::Receiver<()>) {
    let (open, opened) = mpsc::channel();
    let (start, started) = mpsc::channel();
    let opened = Mutex::new(opened);
    let valve = Kernel::new("valve").native(move |_, _| {
        start.send(()).unwrap();
        lock(&opened).recv_timeout(PATIENCE).unwrap();
    });
    let valve = device.new_client().kernel(valve).unwrap();
    stream.launch(&valve, CubeCount::single(), ()).unwrap();
    (open, started)
}

/// An effect sink that has no room.
struct Full;

impl EffectSink for Full {
    fn carry_out(&mut self, effect: Effect) -> Result<(), Effect> {
        Err(effect)
    }
}

/// A device whose actor the test turns, and a stream of it.
fn open_without_thread(options: DeviceOptions) -> (DirectChannel<CpuDevice>, Stream) {
    let end = EpochEnd::default();
    let parts = build_parts(
        Cpu::default().queues(1),
        &options,
        true,
        end.gone.clone(),
        None,
    )
    .unwrap();
    let channel = DirectChannel::new(
        parts.actor,
        parts.sender,
        parts.device,
        parts.gc,
        end.gone.clone(),
        parts.edges,
    );
    let face = Box::new(channel.clone());
    let shared = channel.with_actor(|actor| {
        client_state(actor, face, parts.table, options, end.gone.clone(), None)
    });
    let epochs = DeviceEpochs::new(shared, Arc::default());
    let stream = epochs.client_builder().build().new_stream();
    (channel, stream)
}

/// I5, I11: the thread that ends a timeline notifies the device a little later. Until then a device that wants a
/// point of it must not find that point open at each turn, and never sleep.
#[test]
fn a_device_that_wants_a_point_of_an_ended_timeline_considers_itself_lost() {
    let (channel, stream) = open_without_thread(DeviceOptions::default().max_in_flight(1));
    let mut core = channel.core.enter();
    let actor = core.actor.as_mut().unwrap();
    let _data = [1_u32, 2].map(|value| stream.create(&[value]).unwrap());
    while actor.turn(&mut Full) {}
    // The queue is full and does not run.
    assert!(!actor.prepare_idle(Waker::noop(), &mut Full));
    actor.end_idle();
    assert_eq!(actor.server.awaited_points().count(), 1);
    // Ended, and no control was sent.
    let ended = Timeline::new();
    ended.end();
    actor.timelines[0] = Arc::new(ended);
    assert!(actor.prepare_idle(Waker::noop(), &mut Full));
    assert!(actor.server.is_lost());
}

/// I12: effects that wait for room at the GC actor are bounded, however often the device idles meanwhile.
#[test]
fn watches_do_not_pile_up_without_room_at_the_gc_actor_i12() {
    let (channel, stream) = open_without_thread(DeviceOptions::default());
    let mut core = channel.core.enter();
    let actor = core.actor.as_mut().unwrap();
    for _ in 0..100 {
        // Issued, dropped and never run: memory that waits for another point each time.
        drop(stream.create(&[1_u32; 1_024]).unwrap());
        while actor.turn(&mut Full) {}
        actor.prepare_idle(Waker::noop(), &mut Full);
        actor.end_idle();
    }
    let effects = std::iter::from_fn(|| actor.server.take_effect()).count();
    assert!(effects <= 2, "{effects} effects are kept");
}

/// I8: a thread that waits at the door may hold a lock that a waker takes, so no waker is woken behind the door.
#[test]
fn users_wakers_are_woken_outside_of_a_driven_device_i8() {
    struct Looks(DirectChannel<CpuDevice>, AtomicUsize);
    impl std::task::Wake for Looks {
        fn wake(self: Arc<Self>) {
            let inside = self.0.core.try_enter();
            let wakes = if inside.is_some() { 1 } else { 100 };
            drop(inside);
            self.1.fetch_add(wakes, Ordering::SeqCst);
        }
    }
    let (channel, stream) = open_without_thread(DeviceOptions::default());
    let data = stream.create(&[1_u32; 4]).unwrap();
    let looks = Arc::new(Looks(channel.clone(), AtomicUsize::new(0)));
    let waker = Waker::from(looks.clone());
    let mut answer = stream.read(&data);
    let mut context = std::task::Context::from_waker(&waker);
    assert!(
        std::pin::Pin::new(&mut answer)
            .poll(&mut context)
            .is_pending()
    );
    while channel.step(PATIENCE) {}
    assert!(matches!(looks.1.load(Ordering::SeqCst), 1..100));
    assert_eq!(answer.wait().unwrap(), [1; 4]);
}

/// I11, I5: no thread polls, and every sleeping thread is woken.
#[test]
fn waiters_for_a_guard_of_another_thread_sleep_until_it_is_dropped_i11() {
    let (device, driver) = open();
    let stream = device.new_client().new_stream();
    let data = stream.create(&[7_u32; 4]).unwrap();
    let guard = stream.get_resource::<Cpu>(&[(&data, Access::Write)][..]);
    let guard = guard.wait().unwrap();
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| stream.read(&data).wait_timeout(PATIENCE)))
            .collect();
        until_asleep(&device, 3);
        drop(guard);
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap().unwrap(), [7; 4]);
        }
    });
    until_asleep(&device, 0);
    assert!(driver.close().drained);
}

/// I11: a thread that another thread's kernel keeps out of the device sleeps as well.
#[test]
fn a_thread_that_finds_the_device_busy_sleeps_until_it_is_free_i11() {
    let (device, mut driver) = open();
    let client = device.new_client();
    let (busy, other) = (client.new_stream(), client.new_stream());
    let (open, started) = launch_a_valve(&device, &busy);
    std::thread::scope(|scope| {
        let pump = scope.spawn(|| driver.pump(Duration::ZERO));
        started.recv_timeout(PATIENCE).unwrap();
        let waiter = scope.spawn(|| {
            let data = other.create(&[3_u32]).unwrap();
            other.read(&data).wait_timeout(PATIENCE)
        });
        until_asleep(&device, 1);
        open.send(()).unwrap();
        assert_eq!(waiter.join().unwrap().unwrap(), [3]);
        pump.join().unwrap();
    });
    assert!(driver.close().drained);
}

/// I5, I11: the callback of an answer that has arrived wakes a sleeping thread, which runs it.
#[test]
fn the_callback_of_an_arrived_answer_wakes_a_sleeping_driver_i11() {
    let (device, _driver) = open();
    let stream = device.new_client().new_stream();
    let (data, held) = (
        stream.create(&[3_u32]).unwrap(),
        stream.create(&[7_u32]).unwrap(),
    );
    let answer = stream.read(&data);
    stream.sync().wait().unwrap();
    let guard = stream.get_resource::<Cpu>(&[(&held, Access::Write)][..]);
    let guard = guard.wait().unwrap();
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| stream.read(&held).wait_timeout(PATIENCE));
        until_asleep(&device, 1);
        answer
            .on_ready(move |data| sender.send((data, std::thread::current().id())).unwrap())
            .unwrap();
        let (data, runner) = receiver.recv_timeout(PATIENCE).unwrap();
        assert_eq!(data.unwrap(), [3]);
        assert_eq!(runner, waiter.thread().id());
        drop(guard);
        assert_eq!(waiter.join().unwrap().unwrap(), [7]);
    });
}

/// I5: a time limit ends a sleep.
#[test]
fn a_time_limit_ends_the_sleep_i5() {
    let (device, _driver) = open();
    let stream = device.new_client().new_stream();
    let data = stream.create(&[7_u32; 4]).unwrap();
    let guard = stream.get_resource::<Cpu>(&[(&data, Access::Write)][..]);
    let _guard = guard.wait().unwrap();
    let answer = stream.read(&data).wait_timeout(Duration::from_millis(1));
    assert!(matches!(answer, Err(Error::TimedOut { .. })));
    until_asleep(&device, 0);
}

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

/// I5, I11: a thread that goes to sleep while another one is inside cannot read the deadline of the next task. The
/// thread inside rings for it, even if it has done nothing.
#[test]
fn a_sleeper_that_cannot_read_the_next_deadline_is_woken_by_the_thread_inside_i5() {
    let (channel, stream) = open_without_thread(DeviceOptions::default());
    let data = stream.create(&[7_u32]).unwrap();
    let guard = stream.get_resource::<Cpu>(&[(&data, Access::Write)][..]);
    let _guard = guard.wait().unwrap();
    let late = stream.with_deadline(Instant::now() + Duration::from_millis(1));
    let answer = late.read(&data);
    std::thread::scope(|scope| {
        let mut waiter = None;
        let mut answer = Some(answer);
        let bell = channel.idle.bell.clone();
        let heard = bell.heard();
        let mut stay = |_: &mut Core<CpuDevice>| {
            if let Some(mut answer) = answer.take() {
                waiter = Some(scope.spawn(move || answer.wait_timeout(PATIENCE)));
            }
            let start = Instant::now();
            while bell.sleepers() == 0 && bell.heard() == heard {
                assert!(start.elapsed() < PATIENCE, "the waiter does not sleep");
                std::thread::yield_now();
            }
            false
        };
        channel.turn_with(true, &mut stay);
        assert!(bell.heard() != heard, "the waiter may sleep forever");
        let answer = waiter.unwrap().join().unwrap();
        assert!(matches!(answer, Err(Error::Failed(_))), "{answer:?}");
    });
}

/// Spins for longer than one step of a waiting thread.
fn spin_for_long() {
    let start = Instant::now();
    while start.elapsed() <= DRIVE_BUDGET {
        std::hint::spin_loop();
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

/// A value whose drop takes long and is counted.
struct Long(Arc<AtomicUsize>);

impl Drop for Long {
    fn drop(&mut self) {
        spin_for_long();
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// I8: user code stops when the pump's budget is used up, and the rest runs in the next pump.
#[test]
fn a_pump_leaves_user_code_beyond_its_budget_to_the_next_pump_i8() {
    let (device, mut driver) = open();
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..20 {
        let long = Long(ran.clone());
        let stream = device.new_client().new_stream();
        stream.host("long", (), move || drop(long)).unwrap();
    }
    let stream = device.new_client().new_stream();
    for _ in 0..20 {
        stream.drop_after(Long(ran.clone())).unwrap();
    }
    let (mut pumps, mut before) = (0, 0);
    while driver.pump(Duration::ZERO) {
        let now = ran.load(Ordering::Relaxed);
        assert!(now - before <= 1, "{} in one pump", now - before);
        (pumps, before) = (pumps + 1, now);
    }
    assert!(before == 40 && pumps >= 40);
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
    for (guarded, deadline) in [(false, None), (true, None), (false, Some(Instant::now()))] {
        let (device, driver) = open();
        let stream = device.new_client().new_stream();
        let values = stream.create(&[1_u32]).unwrap();
        let guard = guarded.then(|| {
            let guard = stream.get_resource::<Cpu>(&[(&values, Access::Write)][..]);
            guard.wait().unwrap()
        });
        let asked = Arc::new(AtomicUsize::new(0));
        ask_again(stream.clone(), asked.clone());
        match deadline {
            None => drop(driver),
            Some(deadline) => _ = device.driven.as_ref().unwrap().close(Some(deadline)),
        }
        let before = asked.load(Ordering::SeqCst);
        assert!(before > 0);
        // Later asks are refused at once.
        assert!(stream.sync().on_ready(|_| ()).is_err());
        drop(guard);
        assert_eq!(asked.load(Ordering::SeqCst), before);
    }
}

/// Launches a kernel that takes longer than `time`.
fn launch_a_long_kernel(device: &Device, stream: &Stream, time: Duration) {
    let long = Kernel::new("long").native(move |_, _| {
        let start = Instant::now();
        while start.elapsed() <= time {
            std::hint::spin_loop();
        }
    });
    let long = device.new_client().kernel(long).unwrap();
    stream.launch(&long, CubeCount::single(), ()).unwrap();
}

/// Adds `count` host functions without dependencies, which count themselves.
fn add_host_functions(device: &Device, count: usize) -> Arc<AtomicUsize> {
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..count {
        let ran = ran.clone();
        let count = move || _ = ran.fetch_add(1, Ordering::SeqCst);
        let stream = device.new_client().new_stream();
        stream.host("count", (), count).unwrap();
    }
    ran
}

#[test]
fn user_code_gets_what_the_kernels_of_a_pump_leave_of_its_budget() {
    let (device, mut driver) = open();
    let budget = Duration::from_millis(2);
    let stream = device.new_client().new_stream();
    launch_a_long_kernel(&device, &stream, budget);
    launch_a_long_kernel(&device, &stream, budget);
    let ran = add_host_functions(&device, 40);
    assert!(driver.pump(budget));
    assert_eq!(ran.load(Ordering::SeqCst), 1, "at least one, and no more");
    while driver.pump(budget) {}
    assert_eq!(ran.load(Ordering::SeqCst), 40);
}

/// I8: a wait with a timeout begins no user code of others while it has something else to do, and none once it is late.
#[test]
fn a_timed_wait_runs_user_code_only_if_there_is_nothing_else_to_do_i8() {
    let (device, mut driver) = open();
    let stream = device.new_client().new_stream();
    let values = stream.create(&[7_u32; 4]).unwrap();
    let ran = add_host_functions(&device, 2);
    let mut answer = stream.read(&values);
    assert_eq!(answer.wait_timeout(PATIENCE).unwrap(), [7; 4]);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    let guard = stream.get_resource::<Cpu>(&[(&values, Access::Write)][..]);
    let mut guard = guard;
    let late = guard.wait_timeout(Duration::ZERO);
    assert!(matches!(late, Err(Error::TimedOut { .. })));
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    // The guard begins as user code, behind the two.
    drop(guard.wait_timeout(PATIENCE).unwrap());
    assert_eq!(ran.load(Ordering::SeqCst), 2);
    while driver.pump(Duration::ZERO) {}
}

//! A thread that waits on a driven device drives it, and sleeps if there is nothing to drive.

use super::*;

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

/// I5, I11: a thread that goes to sleep while another one is inside cannot read the deadline of the next task. The
/// thread inside rings for it, even if it has done nothing.
#[test]
fn a_sleeper_that_cannot_read_the_next_deadline_is_woken_by_the_thread_inside_i5() {
    let (executor, stream) = open_for_test(&DeviceOptions::default());
    let data = stream.create(&[7_u32]).unwrap();
    let guard = stream.get_resource::<Cpu>(&[(&data, Access::Write)][..]);
    let _guard = guard.wait().unwrap();
    let late = stream.with_deadline(Instant::now() + Duration::from_millis(1));
    let answer = late.read(&data);
    std::thread::scope(|scope| {
        let mut waiter = None;
        let mut answer = Some(answer);
        let bell = executor.driven.as_ref().unwrap().bell.clone();
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
        executor.turn_with(true, &mut stay);
        assert!(bell.heard() != heard, "the waiter may sleep forever");
        let answer = waiter.unwrap().join().unwrap();
        assert!(matches!(answer, Err(Error::Failed(_))), "{answer:?}");
    });
}

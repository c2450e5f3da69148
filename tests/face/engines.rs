//! Engines bring their own threads (I5, I10): one that is not had is an error that leaves nothing behind, and what an
//! engine does with a thread does not decide whether the device ends.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};
use std::time::{Duration, Instant};

use crate::engine::{Answer, Engine, PATIENCE, cpu, use_everything};
use millstream::sim::{Faults, Sim};
use millstream::{Access, Device, DeviceOptions, Error, Health, OpenError, ReopenError};

/// I5, I10: whatever the engine does at whichever call, opening fails or succeeds whole.
#[test]
fn a_thread_that_is_not_had_is_an_error_that_leaves_no_thread_behind_i10() {
    for answer in [
        Answer::Refuse,
        Answer::Panic,
        Answer::Forget,
        Answer::RunInPlace,
    ] {
        for sim in [false, true] {
            let mut nth = 0;
            loop {
                let engine = Arc::new(Engine::default());
                let options = engine.options(move |call| match call == nth {
                    true => answer,
                    false => Answer::Start,
                });
                let opened = match sim {
                    true => Device::open_with(Sim::seed(7), options),
                    false => Device::open_with(cpu(), options),
                };
                match opened {
                    Err(OpenError::Thread(why)) => assert!(why.starts_with('`'), "{why}"),
                    Err(other) => panic!("{other}"),
                    Ok(device) => {
                        assert!(engine.asked() == nth, "{answer:?} at {nth} went unnoticed");
                        drop(device);
                        engine.join();
                        break;
                    }
                }
                assert_eq!(engine.asked(), nth + 1, "it goes on asking");
                engine.join();
                nth += 1;
            }
            let needed = if sim { 4 } else { 7 };
            assert_eq!(nth, needed, "threads from the start");
        }
    }
}

/// An engine that contradicts itself: what runs is joined like any other.
#[test]
fn a_thread_that_runs_although_it_was_refused_is_used_or_never_begins() {
    let engine = Arc::new(Engine::default());
    // Those from the start: which of them begin is a race. What is used below needs those for user code that follow.
    let from_the_start = 7;
    let options = engine.options(move |call| match call < from_the_start {
        true => Answer::StartAndRefuse,
        false => Answer::Start,
    });
    match Device::open_with(cpu(), options) {
        Ok(device) => use_everything(&device),
        Err(error) => assert!(matches!(error, OpenError::Thread(_))),
    }
    engine.join();
}

/// I5: what runs user code from the start goes on alone.
#[test]
fn user_code_runs_although_no_further_thread_is_given_i5() {
    let engine = Arc::new(Engine::default());
    let from_the_start = 7;
    let device = Device::open_with(
        cpu(),
        engine.options(move |call| match call < from_the_start {
            true => Answer::Start,
            false => Answer::Refuse,
        }),
    )
    .unwrap();
    let client = device.new_client();
    let (tell, told) = mpsc::channel();
    for number in 0..20 {
        let tell = tell.clone();
        client
            .new_stream()
            .host("tell", (), move || tell.send(number).unwrap())
            .unwrap();
    }
    let mut numbers: Vec<u32> = (0..20)
        .map(|_| told.recv_timeout(PATIENCE).unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..20).collect::<Vec<_>>());
    drop(device);
    engine.join();
}

/// I5, I10: a queue of jobs that nobody serves, which the engine drops when it ends.
#[test]
fn a_device_whose_bodies_are_never_begun_closes_and_answers_i5() {
    for dropped in [false, true] {
        let (queue, jobs) = mpsc::channel();
        let options = DeviceOptions::default().spawn_with(move |body| {
            queue
                .send(body)
                .map_err(|_| io::Error::other("no more jobs"))
        });
        let device = Device::open_with(cpu(), options).unwrap();
        let stream = device.new_client().new_stream();
        let values = stream.create(&[1_u32]).unwrap();
        let answer = stream.read(&values);
        if dropped {
            drop(jobs);
            assert!(matches!(answer.wait(), Err(Error::DeviceLost { .. })));
            drop(device);
        } else {
            // It is closed by the thread that closes it.
            device.close(Duration::from_millis(20));
            assert!(answer.wait().is_err());
            drop(jobs);
        }
    }
}

/// I5, I8: the function that starts threads may be inside an opening, or on any thread: it never waits for the device.
#[test]
fn nothing_waits_inside_the_function_that_starts_threads_i5() {
    let (engine, device) = (Arc::new(Engine::default()), OnceLock::<Weak<Device>>::new());
    let device = Arc::new(device);
    let (told, inside) = (Arc::new(Mutex::new(Vec::new())), device.clone());
    let (starter, tell) = (engine.clone(), told.clone());
    let options = DeviceOptions::default().spawn_with(move |body| {
        if let Some(device) = inside.get().and_then(Weak::upgrade) {
            let answers = (device.reopen(), device.sync().wait());
            tell.lock().unwrap().push(answers);
        }
        starter.start(body)
    });
    let lost = Sim::seed(7).faults(Faults::none().lost_from(1));
    let opened = Arc::new(Device::open_with(lost, options).unwrap());
    // It is told, or told so at once.
    let _ = opened.new_client().new_stream().create(&[1_u32]);
    assert!(matches!(
        opened.sync().wait(),
        Err(Error::DeviceLost { .. })
    ));
    device.set(Arc::downgrade(&opened)).unwrap();
    let (done, reopened) = mpsc::channel();
    let reopens = opened.clone();
    std::thread::spawn(move || done.send(reopens.reopen_with(Sim::seed(7))));
    let report = reopened.recv_timeout(PATIENCE).expect("it hangs").unwrap();
    assert!(report.drained || report.threads_left == 0, "{report:?}");
    assert_eq!(opened.health(), Health::Running { epoch: 1 });
    let answers = std::mem::take(&mut *told.lock().unwrap());
    assert!(!answers.is_empty(), "nobody was asked for a thread");
    for (reopened, waited) in answers {
        assert_eq!(reopened, Err(ReopenError::WouldDeadlock));
        assert!(waited.is_err(), "of the lost epoch, or it would wait");
    }
    drop(opened);
    engine.join();
}

/// I5: a thread that was a device's is the caller's again afterwards, and may wait for another device.
#[test]
fn a_thread_that_ran_a_body_may_wait_again_i5() {
    let (queue, jobs) = mpsc::channel::<millstream::ThreadBody>();
    let options = DeviceOptions::default()
        .spawn_with(move |body| queue.send(body).map_err(|_| io::Error::other("no more")));
    let device = Device::open_with(cpu(), options).unwrap();
    let other = Device::open(cpu()).unwrap();
    std::thread::scope(|scope| {
        let other = &other;
        // Each is the thread of one body, and waits for another device then.
        let threads: Vec<_> = (0..7)
            .map(|_| {
                let body = jobs.recv_timeout(PATIENCE).unwrap();
                scope.spawn(move || {
                    let role = body.role();
                    body.run();
                    (role, other.sync().wait())
                })
            })
            .collect();
        // The device's has begun then, and a queue's; whoever closes runs those that have not.
        let values = device.new_client().new_stream().create(&[1_u32]).unwrap();
        assert_eq!(
            device
                .new_client()
                .new_stream()
                .read(&values)
                .wait()
                .unwrap(),
            [1]
        );
        device.close(PATIENCE);
        for thread in threads {
            let (role, waited) = thread.join().unwrap();
            assert!(waited.is_ok(), "{role:?}: {waited:?}");
        }
    });
}

/// I5, I10: callbacks that are told of a loss run outside the device, as all others: they may drop the driver.
#[test]
fn a_callback_that_is_told_of_the_loss_may_drop_the_driver() {
    let sim = Sim::seed(3).faults(Faults::none().lost_at_run(6));
    let (device, driver) = Device::open_driven(sim, DeviceOptions::default()).unwrap();
    let (stream, other) = (
        device.new_client().new_stream(),
        device.new_client().new_stream(),
    );
    let (data, held) = (
        stream.create(&[1_u32; 8]).unwrap(),
        other.create(&[2_u32]).unwrap(),
    );
    let guard = other
        .get_resource::<Sim>(&[(&held, Access::Write)][..])
        .wait()
        .unwrap();
    let (driver, (tell, told)) = (Mutex::new(Some(driver)), mpsc::channel());
    // The guard holds it back until the device is lost.
    other
        .read(&held)
        .on_ready(move |answer| {
            drop(driver.lock().unwrap().take());
            tell.send(answer).unwrap();
        })
        .unwrap();
    (0..20).for_each(|_| stream.fill(&data, 3).unwrap());
    assert!(matches!(
        stream.sync().wait(),
        Err(Error::DeviceLost { .. })
    ));
    // The callback had its turn in that wait, unless the time that a caller drives was over. Then it has one in the next.
    let began = Instant::now();
    let told = loop {
        match told.try_recv() {
            Ok(answer) => break answer,
            Err(_) => drop(stream.sync().wait()),
        }
        assert!(began.elapsed() < PATIENCE, "the callback is not called");
    };
    assert!(matches!(told, Err(Error::DeviceLost { .. })));
    assert_eq!(device.health(), Health::Closed);
    drop(guard);
}

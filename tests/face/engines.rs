//! Engines that start the device's threads (I5, I10): a thread that cannot be started is an error that leaves nothing
//! behind, and the device ends whatever an engine does with a thread.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};
use std::time::{Duration, Instant};

use crate::engine::{Answer, Engine, PATIENCE, cpu, use_everything};
use millstream::sim::{Faults, Sim};
use millstream::{Access, Device, DeviceOptions, Error, Health, OpenError, error::ReopenError};

/// I5, I10: opening either fails or succeeds as a whole, whatever the engine does at whichever call.
#[test]
fn an_opening_that_cannot_start_a_thread_fails_and_leaves_no_thread_behind_i10() {
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
                        assert!(
                            engine.asked() == nth,
                            "{answer:?} at call {nth} was ignored"
                        );
                        drop(device);
                        engine.join();
                        break;
                    }
                }
                assert_eq!(
                    engine.asked(),
                    nth + 1,
                    "the opening goes on after the error"
                );
                engine.join();
                nth += 1;
            }
            let needed = if sim { 4 } else { 7 };
            assert_eq!(nth, needed, "threads started by the opening");
        }
    }
}

/// An engine that starts a thread and reports an error: a thread that runs is joined like any other.
#[test]
fn a_thread_that_starts_although_the_engine_refused_it_is_joined() {
    let engine = Arc::new(Engine::default());
    // Whether the threads of the opening start is a race. `use_everything` needs further threads for user code.
    let started_by_open = 7;
    let options = engine.options(move |call| match call < started_by_open {
        true => Answer::StartAndRefuse,
        false => Answer::Start,
    });
    match Device::open_with(cpu(), options) {
        Ok(device) => use_everything(&device),
        Err(error) => assert!(matches!(error, OpenError::Thread(_))),
    }
    engine.join();
}

/// I5: the thread for user code that the opening starts can run all user code.
#[test]
fn user_code_runs_if_no_further_thread_can_be_started_i5() {
    let engine = Arc::new(Engine::default());
    let started_by_open = 7;
    let device = Device::open_with(
        cpu(),
        engine.options(move |call| match call < started_by_open {
            true => Answer::Start,
            false => Answer::Refuse,
        }),
    )
    .unwrap();
    let client = device.new_client();
    let (sender, receiver) = mpsc::channel();
    for number in 0..20 {
        let sender = sender.clone();
        client
            .new_stream()
            .host("tell", (), move || sender.send(number).unwrap())
            .unwrap();
    }
    let mut numbers: Vec<u32> = (0..20)
        .map(|_| receiver.recv_timeout(PATIENCE).unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..20).collect::<Vec<_>>());
    drop(device);
    engine.join();
}

/// I5, I10: an engine that never runs the thread bodies, and drops them in the end.
#[test]
fn a_device_whose_thread_bodies_never_run_closes_and_answers_i5() {
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
            // The closing thread runs the bodies.
            device.close(Duration::from_millis(20));
            assert!(answer.wait().is_err());
            drop(jobs);
        }
    }
}

/// I5, I8: the function that starts threads may run inside an opening, or on any thread, so no call in it waits for the
/// device.
#[test]
fn no_call_blocks_inside_the_function_that_starts_threads_i5() {
    let (engine, device) = (Arc::new(Engine::default()), OnceLock::<Weak<Device>>::new());
    let device = Arc::new(device);
    let (answers, inside) = (Arc::new(Mutex::new(Vec::new())), device.clone());
    let (starter, recorded) = (engine.clone(), answers.clone());
    let options = DeviceOptions::default().spawn_with(move |body| {
        if let Some(device) = inside.get().and_then(Weak::upgrade) {
            let answers = (device.reopen(), device.sync().wait());
            recorded.lock().unwrap().push(answers);
        }
        starter.start(body)
    });
    let lost = Sim::seed(7).faults(Faults::none().lost_from(1));
    let opened = Arc::new(Device::open_with(lost, options).unwrap());
    // May return the loss already.
    let _ = opened.new_client().new_stream().create(&[1_u32]);
    assert!(matches!(
        opened.sync().wait(),
        Err(Error::DeviceLost { .. })
    ));
    device.set(Arc::downgrade(&opened)).unwrap();
    let (done, reopened) = mpsc::channel();
    let reopens = opened.clone();
    std::thread::spawn(move || done.send(reopens.reopen_with(Sim::seed(7))));
    let report = reopened
        .recv_timeout(PATIENCE)
        .expect("reopening hangs")
        .unwrap();
    assert!(report.drained || report.threads_left == 0, "{report:?}");
    assert_eq!(opened.health(), Health::Running { epoch: 1 });
    let answers = std::mem::take(&mut *answers.lock().unwrap());
    assert!(!answers.is_empty(), "the function was not called");
    for (reopened, waited) in answers {
        assert_eq!(reopened, Err(ReopenError::WouldDeadlock));
        assert!(waited.is_err(), "a wait inside the function must fail");
    }
    drop(opened);
    engine.join();
}

/// I5: a thread that has run a body belongs to the caller again, and may wait for another device.
#[test]
fn a_thread_that_ran_a_body_may_wait_for_another_device_i5() {
    let (queue, jobs) = mpsc::channel::<millstream::device::ThreadBody>();
    let options = DeviceOptions::default()
        .spawn_with(move |body| queue.send(body).map_err(|_| io::Error::other("no more")));
    let device = Device::open_with(cpu(), options).unwrap();
    let other = Device::open(cpu()).unwrap();
    std::thread::scope(|scope| {
        let other = &other;
        // Each thread runs one body and then waits for another device.
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
        // This starts the device thread and a queue's. The closing thread runs the bodies that have not started.
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

/// I5, I10: callbacks that receive the loss run outside the device, so they may drop the driver.
#[test]
fn a_callback_that_receives_the_loss_may_drop_the_driver_i10() {
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
    let (driver, (sender, receiver)) = (Mutex::new(Some(driver)), mpsc::channel());
    // The guard holds the read back until the device is lost.
    other
        .read(&held)
        .on_ready(move |answer| {
            drop(driver.lock().unwrap().take());
            sender.send(answer).unwrap();
        })
        .unwrap();
    (0..20).for_each(|_| stream.fill(&data, 3).unwrap());
    assert!(matches!(
        stream.sync().wait(),
        Err(Error::DeviceLost { .. })
    ));
    // That wait ran the callback, unless its budget was used up. Then one of the next waits runs it.
    let began = Instant::now();
    let answer = loop {
        match receiver.try_recv() {
            Ok(answer) => break answer,
            Err(_) => drop(stream.sync().wait()),
        }
        assert!(began.elapsed() < PATIENCE, "the callback is not called");
    };
    assert!(matches!(answer, Err(Error::DeviceLost { .. })));
    assert_eq!(device.health(), Health::Closed);
    drop(guard);
}

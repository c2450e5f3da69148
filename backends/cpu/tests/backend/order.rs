//! Queues overlap, and wait for each other where a wait says so (I1).

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use millstream_cpu::Cpu;
use millstream_protocol::{Kernel, Point};
use millstream_sync::timeline::Ended;

use crate::rig::{Q0, Q1, Rig};

#[test]
fn wait_delays_later_tasks_and_not_earlier_ones() {
    let mut rig = Rig::new(Cpu::default().queues(2));
    let slice = rig.slice_of(&[0]);
    let (release, held) = mpsc::channel::<()>();
    let produced = rig.custom(Q0, &[slice.write()], move |resources| {
        held.recv().unwrap();
        resources.unwrap().write::<u32>(0)[0] = 7;
    });
    let before = rig.custom(Q1, &[], |_| ());
    millstream_protocol::Backend::queue_wait(&mut rig.device, Q1, produced).unwrap();
    let (seen, sees) = mpsc::channel();
    let after = rig.custom(Q1, &[slice.read()], move |resources| {
        seen.send(resources.unwrap().read::<u32>(0)[0]).unwrap();
    });
    rig.wait(before).unwrap();
    assert_eq!(rig.completed(Q1), before.cursor);
    release.send(()).unwrap();
    rig.wait(after).unwrap();
    assert_eq!(sees.recv().unwrap(), 7);
}

#[test]
fn as_many_tasks_as_a_queue_takes_run_in_order() {
    const ROUNDS: u32 = 2;
    let mut rig = Rig::new(Cpu::default().queues(1));
    let slice = rig.slice_of(&[0]);
    let depth = millstream_protocol::Backend::properties(&rig.device).max_queue_depth as u32 - 1;
    let step = rig.prepare(
        Kernel::new("step")
            .updates::<u32>("value")
            .scalar::<u32>("expected")
            .native(|_, args| {
                let value = args.chunk::<u32>(0);
                assert_eq!(value[0], args.scalar::<u32>(0));
                value[0] += 1;
            }),
    );
    let mut launched = 0;
    for _ in 0..ROUNDS {
        // The others wait behind a task that is held.
        let (release, held) = mpsc::channel::<()>();
        let mut last = rig.custom(Q0, &[], move |_| held.recv().unwrap());
        for _ in 0..depth {
            last = rig.launch(Q0, &step, 1, &[slice.update()], &[u64::from(launched)]);
            launched += 1;
        }
        release.send(()).unwrap();
        rig.wait(last).unwrap();
    }
    assert_eq!(rig.read(Q0, &slice).unwrap(), [launched]);
}

#[test]
fn dropped_device_ends_every_wait_and_fails_tasks_that_have_not_run() {
    let mut rig = Rig::new(Cpu::default().queues(2));
    let slice = rig.slice_of(&[1, 2]);
    let timeline = millstream_protocol::Backend::timeline(&rig.device, Q0).clone();
    let (entered, enters) = mpsc::channel();
    let (release, held) = mpsc::channel::<()>();
    rig.custom(Q0, &[], move |_| {
        entered.send(()).unwrap();
        held.recv().unwrap();
    });
    // On queue 1: a wait for a point that never passes, and a task after it.
    millstream_protocol::Backend::queue_wait(&mut rig.device, Q1, Point::new(Q0, 1000)).unwrap();
    rig.fill(Q1, &slice.write(), 5);
    let (never, landing) = rig.copy_out(Q0, &slice.read());
    enters.recv().unwrap();
    let waiter = {
        let timeline = timeline.clone();
        std::thread::spawn(move || timeline.wait(never.cursor, &Default::default()))
    };
    let table = rig.table.clone();
    let dropper = std::thread::spawn(move || drop(rig));
    assert_eq!(waiter.join().unwrap(), Err(Ended));
    release.send(()).unwrap();
    dropper.join().unwrap();
    let failure = landing.take().unwrap_err();
    assert_eq!(
        failure.to_string(),
        "`copy out` (of `read`) failed: the device was lost before it ran; open the device again, then repeat the work"
    );
    let poison = &table
        .slot(slice.read().slice.index())
        .unwrap()
        .payload()
        .poison;
    assert!(
        poison.find(0..8).is_some(),
        "the fill has not run, so its output is poisoned (I6)"
    );
}

#[test]
fn dropping_a_device_joins_its_threads() {
    // I10: a thread that was not joined would hold the sender.
    let (alive, dropped) = mpsc::channel::<()>();
    let mut rig = Rig::new(Cpu::default().queues(3).threads(3));
    let point = rig.custom(Q0, &[], move |_| drop(alive));
    rig.wait(point).unwrap();
    drop(rig);
    assert!(dropped.recv_timeout(Duration::ZERO).is_err());
}

#[test]
fn dropping_a_device_on_its_own_thread_does_not_hang() {
    let (give, given) = mpsc::channel::<Rig>();
    let (done, is_done) = mpsc::channel();
    let mut rig = Rig::new(Cpu::default().queues(2).threads(3));
    rig.custom(Q0, &[], move |_| {
        drop(given.recv());
        done.send(()).unwrap();
    });
    give.send(rig).unwrap();
    is_done.recv().unwrap();

    // The same from a cube, which may run on a member of the team.
    let holder = Arc::new(Mutex::new(None::<Rig>));
    let (cubes, count) = mpsc::channel();
    let mut rig = Rig::new(Cpu::default().queues(1).threads(3));
    let taken = holder.clone();
    let kernel = rig.prepare(Kernel::new("drop").native(move |cube, _| {
        if cube.index() == 40 {
            while taken.lock().unwrap().take().is_none() {
                std::thread::yield_now();
            }
        }
        cubes.send(cube.index()).unwrap();
    }));
    rig.launch(Q0, &kernel, 64, &[], &[]);
    *holder.lock().unwrap() = Some(rig);
    let mut seen: Vec<_> = count.iter().take(64).collect();
    seen.sort_unstable();
    assert_eq!(
        seen,
        (0..64).collect::<Vec<_>>(),
        "the task that drops the device completes"
    );
}

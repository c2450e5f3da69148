//! Tasks that are held for a caller's thread, which waits for them (I6, I8).

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use millstream_cpu::Cpu;
use millstream_protocol::{Backend, Held, Large, Point};

use crate::rig::{Q0, Rig, Slice};

/// More bytes than a thread that steps in copies while it is inside the device.
const LARGE: u64 = 1 << 20;
const LONG: Duration = Duration::from_secs(60);

fn held(rig: &Rig) -> Arc<dyn Held> {
    rig.device.held().expect("the CPU supports held tasks")
}

/// Fills a slice, and holds the fill if its worker sleeps.
fn fill_held(rig: &mut Rig, slice: &Slice, value: u32) -> Point {
    rig.device.defer_start();
    let point = rig.fill(Q0, &slice.write(), value);
    let done = rig.device.start_deferred(Large::Hold);
    assert_eq!((done.ran, done.queues), (false, 1));
    point
}

/// Runs held tasks until one runs on this thread, which means that the worker sleeps.
fn run_here(rig: &mut Rig, slice: &Slice, held: &dyn Held) {
    let ran_here = |value: &u32| {
        let point = fill_held(rig, slice, *value);
        // The worker may still be awake and take the task.
        let was_held = rig.completed(Q0) < point.cursor;
        held.run(LONG);
        let ran = was_held && rig.completed(Q0) == point.cursor;
        rig.wait(point).expect("it runs");
        ran
    };
    assert!((0..10_000).find(ran_here).is_some());
}

#[test]
fn held_task_runs_on_the_thread_that_calls_run() {
    let mut rig = Rig::new(Cpu::default().queues(1).threads(1));
    let (slice, held) = (rig.slice(LARGE), held(&rig));
    run_here(&mut rig, &slice, &*held);
}

#[test]
fn worker_runs_held_tasks_beyond_the_budget() {
    let mut rig = Rig::new(Cpu::default().queues(1).threads(1));
    let (slice, held) = (rig.slice(LARGE), held(&rig));
    for value in 0..100 {
        let point = fill_held(&mut rig, &slice, value);
        held.run(Duration::ZERO);
        rig.wait(point).unwrap();
        // No task is left to run.
        held.run(LONG);
    }
}

#[test]
fn worker_runs_held_user_code() {
    let mut rig = Rig::new(Cpu::default().queues(1).threads(1));
    let held = held(&rig);
    let (ran, runs) = mpsc::channel::<ThreadId>();
    for _ in 0..100 {
        let ran = ran.clone();
        rig.device.defer_start();
        let point = rig.custom(Q0, &[], move |_| ran.send(thread::current().id()).unwrap());
        assert!(!rig.device.start_deferred(Large::Hold).ran);
        held.run(LONG);
        rig.wait(point).unwrap();
        assert_ne!(runs.recv().unwrap(), thread::current().id());
    }
}

/// I4: the memory stays allocated until the caller has left.
#[test]
fn dropped_device_waits_for_a_caller_that_runs_held_tasks_i4() {
    for value in 0..10 {
        let mut rig = Rig::new(Cpu::default().queues(1).threads(1));
        let (first, second) = (rig.slice(LARGE), rig.slice(64 * LARGE));
        let held = held(&rig);
        run_here(&mut rig, &first, &*held);
        let begun = fill_held(&mut rig, &first, value);
        fill_held(&mut rig, &second, value);
        let caller = thread::spawn(move || held.run(LONG));
        while rig.completed(Q0) < begun.cursor {
            thread::yield_now();
        }
        drop(rig);
        caller.join().unwrap();
    }
}

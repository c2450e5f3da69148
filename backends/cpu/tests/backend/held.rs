//! Tasks that are held for the thread of a caller, which waits for them (I6, I8).

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use millstream_cpu::Cpu;
use millstream_protocol::backend::{Backend, Held, Large};
use millstream_protocol::id::Point;

use crate::rig::{Q0, Rig, Slice};

/// More than a thread that steps in runs inside of the device.
const LARGE: u64 = 1 << 20;
const LONG: Duration = Duration::from_secs(60);

fn held(rig: &Rig) -> Arc<dyn Held> {
    rig.device.held().expect("a CPU holds tasks")
}

/// Fills a slice, and holds that if its worker sleeps.
fn fill_held(rig: &mut Rig, slice: &Slice, value: u32) -> Point {
    rig.device.hold_back();
    let point = rig.fill(Q0, &slice.write(), value);
    let done = rig.device.let_go(Large::Hold);
    assert_eq!((done.ran, done.queues), (false, 1));
    point
}

/// Runs held tasks until one ran on this thread: its worker sleeps then.
fn run_here(rig: &mut Rig, slice: &Slice, held: &dyn Held) {
    let ran_here = |value: &u32| {
        let point = fill_held(rig, slice, *value);
        // The worker may be about to sleep only.
        let was_held = rig.completed(Q0) < point.cursor;
        held.run(LONG);
        let ran = was_held && rig.completed(Q0) == point.cursor;
        rig.wait(point).expect("it runs");
        ran
    };
    assert!((0..10_000).find(ran_here).is_some());
}

#[test]
fn what_is_held_runs_on_the_thread_that_asks_for_it() {
    let mut rig = Rig::new(Cpu::default().queues(1).threads(1));
    let (slice, held) = (rig.slice(LARGE), held(&rig));
    run_here(&mut rig, &slice, &*held);
}

#[test]
fn the_worker_runs_what_is_held_and_takes_longer_than_allowed() {
    let mut rig = Rig::new(Cpu::default().queues(1).threads(1));
    let (slice, held) = (rig.slice(LARGE), held(&rig));
    for value in 0..100 {
        let point = fill_held(&mut rig, &slice, value);
        held.run(Duration::ZERO);
        rig.wait(point).unwrap();
        // Nothing is left to run.
        held.run(LONG);
    }
}

#[test]
fn the_worker_runs_code_of_users_that_is_held() {
    let mut rig = Rig::new(Cpu::default().queues(1).threads(1));
    let held = held(&rig);
    let (ran, runs) = mpsc::channel::<ThreadId>();
    for _ in 0..100 {
        let ran = ran.clone();
        rig.device.hold_back();
        let point = rig.custom(Q0, &[], move |_| ran.send(thread::current().id()).unwrap());
        assert!(!rig.device.let_go(Large::Hold).ran);
        held.run(LONG);
        rig.wait(point).unwrap();
        assert_ne!(runs.recv().unwrap(), thread::current().id());
    }
}

/// I4: the memory stays until the caller has left.
#[test]
fn a_device_that_is_dropped_waits_for_a_caller_that_runs_what_was_held() {
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

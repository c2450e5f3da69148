//! The swarm of every change: two thousand programs, and fifty of them twice, which must give the same run.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream::sim::Sim;
use millstream::{Device, DeviceOptions};
use millstream_swarm::{Case, Figures, Verdict};

use crate::hide_planned_panics;

/// The number of programs: a fraction of a minute without optimization.
const PROGRAMS: u64 = 2_000;

/// I1 to I7, I10: for every order that the device chooses, with faults, too little memory and small limits.
#[test]
fn random_programs_are_right_and_break_no_rule() {
    hide_planned_panics();
    let mut figures = Figures::default();
    for seed in 1..=PROGRAMS {
        let case = Case::new(seed);
        match case.run() {
            Verdict::Right(more) => figures = figures.and(more),
            Verdict::Wrong(what) => {
                let small = case.shrunk(Duration::from_secs(30));
                panic!("{what}\ncargo run --release -p millstream-swarm -- {small}");
            }
        }
    }
    // I3; and the programs contain waits and faults.
    assert_eq!(figures.needless_waits, 0);
    assert!(figures.waits > 1_000 && figures.faults > 100, "{figures:?}");
}

/// The number of programs on devices with threads.
const THREADED: u64 = 300;

/// The same with tasks that complete while the device thread is at work, and with a device that sleeps (I5).
#[test]
fn random_programs_are_right_on_threads() {
    hide_planned_panics();
    for seed in 1..=THREADED {
        if let Verdict::Wrong(what) = Case::new(seed).run_on_threads() {
            panic!("seed {seed}: {what}");
        }
    }
}

#[test]
fn equal_cases_give_equal_runs() {
    hide_planned_panics();
    for seed in 1..=50 {
        let case = Case::new(seed);
        assert_eq!(case.run(), case.run(), "seed {seed}");
    }
}

/// Runs host functions of eight streams, each after a fill, on a driven simulator. Returns the order in which they ran.
fn order_of_host_functions(seed: u64, each_takes: Duration) -> Vec<usize> {
    let sim = Sim::seed(seed).queues(4);
    let (device, driver) = Device::open_driven(sim, DeviceOptions::default()).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let streams: Vec<_> = (0..8).map(|_| device.new_client().new_stream()).collect();
    for number in 0..64 {
        let stream = &streams[number % streams.len()];
        let data = stream.create(&[number as u32; 16]).unwrap();
        stream.fill(&data, 1).unwrap();
        let order = order.clone();
        let host = move || {
            std::thread::sleep(each_takes);
            let mut order = order.lock().unwrap_or_else(PoisonError::into_inner);
            order.push(number);
        };
        stream.host("note", (), host).unwrap();
    }
    drop((streams, device));
    assert!(driver.close().drained);
    std::mem::take(&mut order.lock().unwrap())
}

/// A step of a waiting thread runs user code within a time, but not on the simulator.
#[test]
fn time_of_user_code_does_not_change_the_run() {
    for seed in 1..=10 {
        let quick = order_of_host_functions(seed, Duration::ZERO);
        let slow = order_of_host_functions(seed, Duration::from_millis(1));
        assert_eq!(quick, slow, "seed {seed}");
    }
}

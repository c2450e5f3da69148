//! The swarm of every change: two thousand programs, and fifty of them twice, which must give the same run.
#![allow(
    clippy::unwrap_used,
    reason = "in a test, `unwrap` states the expected outcome"
)]

use std::time::Duration;

use millstream_swarm::{Case, Figures, Verdict};

/// The number of programs: a fraction of a minute without optimization.
const PROGRAMS: u64 = 2_000;

/// Hides the panics of kernels, which are on purpose.
fn hide_planned_panics() {
    std::panic::set_hook(Box::new(|panic| {
        if panic.payload().downcast_ref::<&str>() != Some(&"boom") {
            eprintln!("{panic}");
        }
    }));
}

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

#[test]
fn equal_cases_give_equal_runs() {
    hide_planned_panics();
    for seed in 1..=50 {
        let case = Case::new(seed);
        assert_eq!(case.run(), case.run(), "seed {seed}");
    }
}

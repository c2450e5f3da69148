//! What CI runs: some thousand programs, and each of them twice where that must be the same run.
#![allow(
    clippy::unwrap_used,
    reason = "a test says what it expects by unwrapping"
)]

use std::time::Duration;

use millstream_swarm::{Case, Figures, Verdict};

/// Programs of one run: a fraction of a minute without optimization.
const PROGRAMS: u64 = 2_000;

/// Kernels panic on purpose.
fn quietly() {
    std::panic::set_hook(Box::new(|panic| {
        if panic.payload().downcast_ref::<&str>() != Some(&"boom") {
            eprintln!("{panic}");
        }
    }));
}

/// I1 to I7, I10: whatever the order that the device chooses, with faults, too little memory and little room.
#[test]
fn random_programs_are_right_and_break_no_rule() {
    quietly();
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
    // I3, and that the programs do what they are for.
    assert_eq!(figures.needless_waits, 0);
    assert!(figures.waits > 1_000 && figures.faults > 100, "{figures:?}");
}

#[test]
fn equal_cases_give_equal_runs() {
    quietly();
    for seed in 1..=50 {
        let case = Case::new(seed);
        assert_eq!(case.run(), case.run(), "seed {seed}");
    }
}

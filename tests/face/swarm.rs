//! A small swarm: random programs on the simulator, compared with plain arrays. `cargo xtask swarm` runs any number of
//! programs.

use std::time::Duration;

use millstream_swarm::{Case, Verdict};

/// Takes a second or two without optimization.
const PROGRAMS: u64 = 150;

/// I1 to I7, I10: for any order that the device chooses, with faults, little memory and little room.
#[test]
fn random_programs_compute_the_oracles_results_and_break_no_invariant() {
    for seed in 1..=PROGRAMS {
        let case = Case::new(seed);
        if let Verdict::Wrong(what) = case.run() {
            let small = case.shrunk(Duration::from_secs(30));
            panic!("{what}\ncargo run --release -p millstream-swarm -- {small}");
        }
    }
}

//! A small swarm: random programs on the simulator, against plain arrays. `cargo xtask swarm` runs as many as one likes.

use std::time::Duration;

use millstream_swarm::{Case, Verdict};

/// A second or two, without optimization.
const PROGRAMS: u64 = 150;

/// I1 to I7, I10: whatever the order that the device chooses, with faults, too little memory and little room.
#[test]
fn random_programs_compute_what_they_must_and_break_no_rule() {
    for seed in 1..=PROGRAMS {
        let case = Case::new(seed);
        if let Verdict::Wrong(what) = case.run() {
            let small = case.shrunk(Duration::from_secs(30));
            panic!("{what}\ncargo run --release -p millstream-swarm -- {small}");
        }
    }
}

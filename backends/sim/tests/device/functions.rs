//! Functions of threads on the simulator: their results, and what its checker says.

use millstream_client::arguments::CubeCount;
use millstream_ir::{Blocking, Program};
use millstream_kernel_cases::control;
use millstream_kernel_cases::functions::Case;
use millstream_kernel_cases::launch::Launch;
use millstream_protocol::Error;
use millstream_sim::Sim;

use crate::rig::Rig;

/// The number of random functions if `MILLSTREAM_SEEDS` is not set.
const RANDOM_FUNCTIONS: u64 = 60;

fn run(rig: &Rig, case: &Case) -> Result<Vec<Vec<u8>>, Error> {
    let client = rig.device.new_client();
    let launch = Launch {
        program: Program::Ssa(case.function.clone()),
        blocking: Blocking::DEFAULT,
        cubes: CubeCount::Static(case.cubes, 1, 1),
        buffers: &case.buffers,
        words: &case.words,
    };
    launch.run(&client, &client.new_stream())
}

#[test]
fn loops_that_are_left_have_their_results() {
    let rig = Rig::new(Sim::seed(1));
    for case in [control::collatz(), control::halves()] {
        let after = run(&rig, &case).unwrap();
        assert!(
            after.last() == Some(&case.expected),
            "{}",
            case.function.name
        );
    }
    rig.close().assert_clean();
}

/// An access out of bounds fails the launch with its place; all else is as in the reference.
#[test]
fn random_functions_have_the_results_of_the_reference() {
    let seeds = std::env::var("MILLSTREAM_SEEDS").ok();
    let seeds = seeds.and_then(|seeds| seeds.parse().ok());
    let rig = Rig::new(Sim::seed(2));
    for seed in 0..seeds.unwrap_or(RANDOM_FUNCTIONS) {
        let random = control::random(seed);
        match (run(&rig, &random.case), random.is_out_of_bounds) {
            (Ok(after), false) => {
                assert!(after.last() == Some(&random.case.expected), "seed {seed}");
            }
            (Err(error), true) => {
                let why = error.to_string();
                let names = ["is out of bounds", "in kernel `random`"];
                assert!(names.iter().all(|name| why.contains(name)), "{why}");
            }
            (ran, _) => panic!("seed {seed}: {ran:?}"),
        }
    }
    rig.close().assert_clean();
}

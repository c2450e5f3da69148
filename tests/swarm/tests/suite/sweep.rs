//! A fault at every single call of some programs, one run each: no call hangs, nothing leaks, no result is wrong, and
//! every error is typed (I5, I6, I7, I10).

use millstream::sim::Call;
use millstream_swarm::{Case, Fault, Figures, Verdict};

use crate::hide_planned_panics;

/// The seeds of the programs.
const SEEDS: [u64; 3] = [1, 2, 3];

fn run(seed: u64, fault: Fault) -> Figures {
    match Case::with_fault(seed, fault).run() {
        Verdict::Right(figures) => figures,
        Verdict::Wrong(what) => panic!("seed {seed}, {fault:?}: {what}"),
    }
}

/// Runs every program once for each of its calls of this kind, which fails. Returns the number of runs.
fn sweep(call: Call) -> u64 {
    hide_planned_panics();
    let mut runs = 0;
    for seed in SEEDS {
        for nth in 1.. {
            if run(seed, Fault::Nth(call, nth)).faults == 0 {
                break;
            }
            runs += 1;
        }
    }
    println!("{call:?}: {runs} runs");
    runs
}

#[test]
fn a_fault_at_every_allocation_launch_and_copy_is_contained() {
    let kinds = [
        (Call::Allocate, 1),
        (Call::Launch, 100),
        (Call::CopyIn, 10),
        (Call::CopyOut, 10),
        (Call::Copy, 10),
        (Call::Fill, 3),
    ];
    for (call, at_least) in kinds {
        assert!(sweep(call) >= at_least, "{call:?}");
    }
}

#[test]
fn a_task_of_any_kind_that_fails_while_it_runs_is_contained() {
    assert!(sweep(Call::Run) >= 200);
}

/// I5: every request to a lost device returns the loss, whichever call loses the device.
#[test]
fn device_lost_at_any_call_answers_every_request() {
    hide_planned_panics();
    let mut lost = 0;
    for seed in SEEDS {
        for nth in 1..150 {
            lost += u64::from(run(seed, Fault::LostFrom(nth)).faults > 0);
        }
    }
    assert!(lost > 200, "{lost}");
}

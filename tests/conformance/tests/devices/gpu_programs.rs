//! Random programs on the CUDA backend. The fake GPU of each program has its own seed, and so its own order of
//! execution (I2, I4, I7, I10). Each program ends with the checks of the fake driver: no race, no use after free, no
//! leak.
//!
//! ```text
//! MILLSTREAM_SEEDS=1000 cargo test -p millstream-conformance --test devices programs_are_right_for_every_seed
//! ```

use millstream::Health;
use rstest::rstest;

use crate::program::RandomProgram;
use crate::support::*;

/// The number of programs if `MILLSTREAM_SEEDS` is not set.
const SEEDS: u64 = 40;

fn seeds() -> u64 {
    let given = std::env::var("MILLSTREAM_SEEDS").ok();
    given.and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS)
}

#[rstest]
#[case::cuda(On::Cuda)]
#[case::cuda_one_queue(On::CudaOneQueue)]
#[case::cuda_driven(On::CudaDriven)]
fn programs_are_right_for_every_seed_of_the_gpu_i2_i4_i10(#[case] on: On) {
    for seed in 1..=seeds() {
        let rig = on.open_seeded(seed);
        let client = rig.client();
        let ran = RandomProgram::new(on, &client, seed).run();
        ran.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// I5, I7, I10: one run for each call of a program, which is refused. Answers with data are right, failures are
/// reported, and nothing leaks.
#[rstest]
#[case::threads(On::Cuda, 1)]
#[case::one_queue(On::CudaOneQueue, 999)]
#[case::driven(On::CudaDriven, 2)]
#[case::sticky(On::Cuda, 700)]
fn every_call_of_a_program_refused_in_turn_leaks_nothing_i5_i10(#[case] on: On, #[case] code: u32) {
    /// Enough steps for every kind of step and every call of the driver. How many calls they make depends on the load,
    /// which determines what shares a batch.
    const STEPS: usize = 40;
    for nth in 1.. {
        let rig = on.open_seeded(nth);
        let Some(session) = session(&*rig.checks) else {
            return; // Hardware injects no faults.
        };
        let client = rig.client();
        // Without steps that panic, all failures come from the driver.
        let mut program = RandomProgram::new(on, &client, 7).that_never_fails();
        let tally = program.tally();
        session.fault(None, nth, code);
        let run = || {
            (0..STEPS).try_for_each(|_| program.step())?;
            program.finish()
        };
        let ran: Result<(), String> = run();
        let [wrong_data, ..] = tally.violations();
        assert_eq!(wrong_data.sentences, [""; 0], "call {nth}");
        drop(client);
        let lost = matches!(rig.device.health(), Health::Lost { .. });
        let report = match rig.driver {
            Some(driver) => driver.close(),
            None => rig.device.close(PATIENCE),
        };
        let met = session.faults_injected() > 0;
        assert!(met || ran.is_ok(), "call {nth}: {ran:?}");
        if lost || !report.drained || report.bytes_left > 0 {
            // A lost device frees nothing (I10).
            assert!(met, "call {nth}: {report:?}");
            rig.checks.expects_leaks();
        }
        drop((rig.device, rig.checks));
        if !met {
            assert!(nth > 100, "the program has {nth} calls");
            break;
        }
    }
}

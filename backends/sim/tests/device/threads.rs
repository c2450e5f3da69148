//! Functions of the IR, thread by thread: their results, and their mistakes.

use std::collections::BTreeSet;
use std::sync::Arc;

use millstream_client::arguments::{CubeCount, read, update};
use millstream_client::handle::Handle;
use millstream_ir::ssa::{Builder, Function};
use millstream_ir::{Blocking, DType, Program};
use millstream_kernel_cases::functions::{self, Case};
use millstream_kernel_cases::{control, launch::Launch};
use millstream_protocol::{Error, Kernel};
use millstream_sim::{Checks, KernelMistake, Sim, Violation};

use crate::rig::Rig;

/// The number of random functions if `MILLSTREAM_SEEDS` is not set.
const RANDOM_FUNCTIONS: u64 = 100;

/// Runs a case. Returns the contents of its last buffer, and what the simulator has found.
fn run(case: &Case, sim: Sim) -> (Result<Vec<u8>, Error>, Vec<Violation>) {
    let rig = Rig::new(sim);
    let client = rig.device.new_client();
    let launch = Launch {
        program: Program::Ssa(case.function.clone()),
        blocking: Blocking::DEFAULT,
        cubes: CubeCount::Static(case.cubes, 1, 1),
        buffers: &case.buffers,
        words: &case.words,
    };
    let ran = launch.run(&client, &client.new_stream());
    drop(client);
    let last = ran.map(|mut buffers| buffers.pop().unwrap());
    (last, rig.close().violations())
}

#[test]
fn functions_of_every_device_have_their_results() {
    let cases = [
        functions::saxpy(),
        functions::transpose(),
        functions::reductions([8, 2, 3]),
        functions::reductions([96, 1, 1]),
        functions::shuffles(DType::F32, [8, 2, 3], 4),
        functions::shuffles(DType::Bf16, [96, 1, 1], 32),
        functions::subgroup_sums([96, 1, 1], 32),
        functions::additions(DType::F32),
        functions::additions(DType::I64),
        control::atomics(DType::U32),
        control::atomics(DType::I64),
        control::atomics(DType::F32),
        functions::loops(3),
        functions::loops(0),
        functions::loops(-3),
        functions::loops_at_the_end(1 << 62),
        functions::loops_at_the_end(i64::MAX),
        control::collatz(),
        control::halves(),
    ];
    for (seed, case) in (0..).zip(&cases) {
        let (last, found) = run(case, Sim::seed(seed));
        assert_eq!(found, [], "{}", case.function.name);
        assert!(last.unwrap() == case.expected, "{}", case.function.name);
    }
}

/// No race is reported: random functions have none. An access out of bounds ends the launch. The threads of the reference
/// are threads of the host.
#[test]
fn random_functions_have_the_results_of_the_reference() {
    let seeds = std::env::var("MILLSTREAM_SEEDS").ok();
    let seeds = seeds.and_then(|seeds| seeds.parse().ok());
    for seed in 0..seeds.unwrap_or(RANDOM_FUNCTIONS) {
        let random = control::random(seed);
        let (last, found) = run(&random.case, Sim::seed(seed));
        match random.is_out_of_bounds {
            false => {
                assert_eq!(found, [], "{seed}:\n{}", random.case.function);
                assert!(last.unwrap() == random.case.expected, "seed {seed}");
            }
            true => {
                let [Violation::Kernel { mistake, .. }] = &found[..] else {
                    panic!("{seed}: {found:?}");
                };
                let is_named = matches!(mistake, KernelMistake::OutOfBounds { .. });
                assert!(is_named, "{seed}: {mistake}\n{}", random.case.function);
                let error = last.unwrap_err().to_string();
                assert!(error.contains(&mistake.to_string()), "{seed}: {error}");
            }
        }
    }
}

/// Launches a function that reads `x` and updates `y`, where both are the same elements. Returns them afterwards.
fn run_over_one_buffer(function: Function, sim: Sim) -> (Result<Vec<u32>, Error>, Vec<Violation>) {
    let rig = Rig::new(sim);
    let client = rig.device.new_client();
    let stream = client.new_stream();
    let kernel = Kernel::from_program("over", Arc::new(Program::Ssa(function))).unwrap();
    let kernel = client.kernel(kernel).unwrap();
    let all: Handle<u32> = stream.create(&[0; 64]).unwrap();
    let bindings = [read(all.as_bytes()), update(all.as_bytes())];
    stream
        .launch_words(&kernel, CubeCount::single(), &bindings, &[])
        .unwrap();
    let after = stream.read(&all).wait();
    drop((stream, client, all, kernel));
    (after, rig.close().violations())
}

/// Bytes that threads store are part of a word that others load.
#[test]
fn race_between_overlapping_bindings_is_reported() {
    let k = Builder::new("over", [8, 1, 1]);
    let (x, y) = (k.read("x", DType::U32), k.update("y", DType::U8));
    k.line(1);
    let word = x.get(k.thread() / 4);
    k.line(2);
    y.set(k.thread(), word.cast(DType::U8));
    let function = k.build().unwrap();
    for seed in 0..4 {
        let (after, found) = run_over_one_buffer(function.clone(), Sim::seed(seed));
        let [Violation::Kernel { mistake, .. }] = &found[..] else {
            panic!("{found:?}");
        };
        let KernelMistake::Race { first, second, .. } = mistake else {
            panic!("{mistake}");
        };
        let mut lines = [first, second].map(|access| access.line.as_ref().unwrap().line);
        lines.sort_unstable();
        assert_eq!(lines, [1, 2], "{mistake}");
        assert_eq!(first.thread / 4, second.thread / 4, "{mistake}");
        assert!(after.is_err());
    }
}

/// The verifier takes `x` for constant, since the function only reads it. It is not, because `y` overlaps it.
#[test]
fn barrier_that_only_some_threads_reach_ends_the_launch() {
    let k = Builder::new("over", [8, 1, 1]);
    let (x, y) = (k.read("x", DType::U32), k.update("y", DType::U32));
    k.when(x.get(0).eq(0_u32), || {
        y.set(0, 1_u32);
        k.line(3);
        k.barrier();
    });
    let function = k.build().unwrap();
    let (after, found) = run_over_one_buffer(function.clone(), Sim::seed(1));
    assert!(found[0].to_string().contains("race for `"), "{}", found[0]);
    assert!(after.is_err());
    let (after, found) = run_over_one_buffer(function, Sim::seed(1).checks(Checks::Off));
    assert_eq!(found, []);
    let error = after.unwrap_err().to_string();
    assert!(
        error.contains("only some threads of a cube reach"),
        "{error}"
    );
    assert!(error.contains("waits at line 3"), "{error}");
}

#[test]
fn misaligned_access_ends_the_launch() {
    let k = Builder::new("over", [1, 1, 1]);
    let (x, y) = (k.read("x", DType::U32), k.update("y", DType::U32));
    y.set(0, x.get_wide(k.thread() + 1, 2));
    let (after, found) = run_over_one_buffer(k.build().unwrap(), Sim::seed(1));
    let message = "`x[1..3]` is misaligned, the first index must be a multiple of 2";
    assert!(found[0].to_string().ends_with(message), "{}", found[0]);
    assert!(after.unwrap_err().to_string().contains(message));
}

/// Shared arrays are undefined at first. Without checks, such a load is no error.
#[test]
fn shared_arrays_hold_other_garbage_with_each_seed() {
    let mut seen = BTreeSet::new();
    for seed in 0..6 {
        let k = Builder::new("over", [1, 1, 1]);
        let (_, y) = (k.read("x", DType::U32), k.update("y", DType::U32));
        y.set(0, k.shared("part", DType::U32, 4).get(1));
        let sim = Sim::seed(seed).checks(Checks::Off);
        let (after, _) = run_over_one_buffer(k.build().unwrap(), sim);
        seen.insert(after.unwrap()[0]);
    }
    assert!(seen.len() > 3, "{seen:?}");
}

/// A program is checked, and a closure is not.
#[test]
fn program_is_preferred_to_a_closure() {
    let k = Builder::new("both", [4, 1, 1]);
    k.update("y", DType::U32).set(k.thread(), 7_u32);
    let program = Kernel::from_program("both", Arc::new(Program::Ssa(k.build().unwrap())));
    let closure = millstream_protocol::Source::Native(Arc::new(|_, _| panic!("the closure runs")));
    let rig = Rig::new(Sim::seed(1));
    let client = rig.device.new_client();
    let kernel = client.kernel(program.unwrap().prefer(closure)).unwrap();
    let stream = client.new_stream();
    let y = stream.create(&[0_u32; 4]).unwrap();
    stream
        .launch(&kernel, CubeCount::single(), (update(&y),))
        .unwrap();
    assert_eq!(stream.read(&y).wait().unwrap(), [7; 4]);
    drop((stream, client, y, kernel));
    rig.close().assert_clean();
}

//! Handwritten functions, cube by cube.

use std::panic::{AssertUnwindSafe, catch_unwind};

use millstream_ir::ssa::{Axis, Builder, Function, Position, parse};
use millstream_ir::{DType, ReduceOp};
use millstream_kernel_cases::control;
use millstream_kernel_cases::functions::{self, Case};
use rstest::rstest;

use crate::run;

/// The number of random functions if `MILLSTREAM_SEEDS` is not set.
const RANDOM_FUNCTIONS: u64 = 200;

fn run_case(case: &Case) -> Vec<Vec<u8>> {
    let cubes = [case.cubes, 1, 1];
    run(&case.function, cubes, &case.buffers, &case.words)
}

/// Returns elements as bytes.
fn bytes(elements: impl IntoIterator<Item = u64>) -> Vec<u8> {
    elements.into_iter().flat_map(u64::to_le_bytes).collect()
}

/// Returns the message a launch panics with.
fn panic_message(function: &Function, buffer: Vec<u8>, words: &[u64]) -> String {
    let launch = AssertUnwindSafe(|| run(function, [1; 3], &[buffer], words));
    let payload = catch_unwind(launch).unwrap_err();
    *payload.downcast::<String>().unwrap()
}

/// The functions that every device runs. A loop whose end is never reached in exact arithmetic still ends.
#[rstest]
#[case::saxpy(functions::saxpy())]
#[case::transpose(functions::transpose())]
#[case::reductions(functions::reductions([8, 2, 3]))]
#[case::wide_reductions(functions::reductions([96, 1, 1]))]
#[case::shuffles(functions::shuffles(DType::F32, [8, 2, 3], 4))]
#[case::wide_shuffles(functions::shuffles(DType::U16, [96, 1, 1], 32))]
#[case::narrow_shuffles(functions::shuffles(DType::I64, [6, 5, 1], 2))]
#[case::subgroup_sums(functions::subgroup_sums([96, 1, 1], 32))]
#[case::narrow_sums(functions::subgroup_sums([8, 3, 1], 8))]
#[case::additions(functions::additions(DType::F32))]
#[case::wide_additions(functions::additions(DType::I64))]
#[case::atomics(control::atomics(DType::I32))]
#[case::wide_atomics(control::atomics(DType::U64))]
#[case::atomics_of_floats(control::atomics(DType::F64))]
#[case::loops(functions::loops(3))]
#[case::no_step(functions::loops(0))]
#[case::step_back(functions::loops(-3))]
#[case::long_step(functions::loops_at_the_end(1 << 62))]
#[case::longest_step(functions::loops_at_the_end(i64::MAX))]
#[case::collatz(control::collatz())]
#[case::halves(control::halves())]
fn functions_of_every_device_have_their_results(#[case] case: Case) {
    assert!(run_case(&case).last() == Some(&case.expected));
}

/// Random functions give the results of the reference, whose threads run on their own. It panics if only some of them
/// reach a barrier, so it shows that the check refuses such functions.
#[test]
fn random_functions_have_the_results_of_the_reference() {
    let given = std::env::var("MILLSTREAM_SEEDS").ok();
    let seeds = given.and_then(|seeds| seeds.parse().ok());
    let seeds: u64 = seeds.unwrap_or(RANDOM_FUNCTIONS);
    let (mut strays, mut meets) = (0, 0);
    for seed in 0..seeds {
        let random = control::random(seed);
        let case = &random.case;
        let text = case.function.to_string();
        assert_eq!(parse(&text).as_ref(), Ok(&case.function), "{text}");
        meets += u64::from(random.meets);
        if random.is_out_of_bounds {
            strays += 1;
            let ran = catch_unwind(AssertUnwindSafe(|| run_case(case)));
            let message = ran.map_err(|payload| *payload.downcast::<String>().unwrap());
            let is_named = |message: &String| message.contains("is out of bounds");
            assert!(message.as_ref().is_err_and(is_named), "{seed}: {message:?}");
            continue;
        }
        let after = run_case(case);
        assert!(
            after.last() == Some(&case.expected),
            "{seed}:\n{}",
            case.function
        );
    }
    println!("{strays} of {seeds} stray, {meets} have barriers");
    let few = seeds / 20;
    assert!(
        strays > few && meets > few,
        "{strays} stray, {meets} have barriers"
    );
}

/// The line of the source file, of the statement that fails.
#[test]
fn access_out_of_bounds_names_its_line() {
    let k = Builder::new("k", [2, 1, 1]);
    k.file("src/a.rs");
    let x = k.update("x", DType::I64);
    k.line(7);
    let at = x.get(0);
    k.when(at.eq(0), || {
        k.line(12);
        x.set(at + 9, 1);
    });
    k.check_bounds();
    // The length of the launch word is too great: the CPU compares with that of the buffer.
    let message = panic_message(&k.build().unwrap(), vec![0; 8 * 4], &[100]);
    let why = "`x[9]` is out of bounds, `x` has 4 elements, in kernel `k` at src/a.rs:12;";
    assert!(message.starts_with(why), "{message}");
}

/// Threads diverge at an `if` and leave a loop one by one; shared values are visible after a barrier.
#[test]
fn threads_diverge_and_reconverge() {
    let k = Builder::new("diverge", [8, 2, 1]);
    let out = k.write("out", DType::I64);
    let shared = k.shared("turns", DType::I64, 16);
    let me = k.thread() + k.position(Position::Thread, Axis::Y) * 8;
    let turns = k.var("n", 0);
    k.range(0, me, 1, |i| {
        k.either(
            (i % 2).eq(0),
            || turns.set(turns.get() + 1),
            || turns.set(turns.get() + 100),
        );
    });
    shared.set(me, turns.get());
    k.barrier();
    let sum = shared.get(-me + 15) + k.cube() * 10_000;
    out.set(
        me + k.cube() * 16,
        sum + turns.get().reduce_subgroup(8, ReduceOp::Max) * 1_000_000,
    );
    let function = k.build().unwrap();
    let after = run(&function, [2, 1, 1], &[vec![0; 8 * 32]], &[]);
    let turns = |me: u64| me.div_ceil(2) + me / 2 * 100;
    let expected = (0..32).map(|nth| {
        let (cube, me) = (nth / 16, nth % 16);
        turns(15 - me) + cube * 10_000 + turns(me / 8 * 8 + 7) * 1_000_000
    });
    assert_eq!(after, [bytes(expected)]);
}

#[rstest]
#[case(4, "`x[4]` is out of bounds, `x` has 4 elements")]
#[case(-1, "`x[-1]` is out of bounds, `x` has 4 elements")]
#[case(i64::MIN, "is out of bounds, `x` has 4 elements")]
fn access_out_of_bounds_panics(#[case] index: i64, #[case] why: &str) {
    for writes in [true, false] {
        let k = Builder::new("k", [2, 1, 1]);
        let (x, at) = (k.update("x", DType::I64), k.scalar("at", DType::I64));
        match writes {
            true => x.set(at, 1),
            false => x.set(0, x.get(at)),
        }
        let function = k.build().unwrap();
        let message = panic_message(&function, vec![0; 8 * 4], &[index as u64]);
        assert!(message.contains(why), "{message}");
    }
}

#[rstest]
#[case(2, None)]
#[case(
    1,
    Some(
        "access `x[1]` of width 2 is misaligned, the index must be a multiple of 2, in kernel `k`"
    )
)]
#[case(
    4,
    Some(
        "`x[4..6]` is out of bounds, `x` has 5 elements, in kernel `k`; compare the index with the length first"
    )
)]
fn misaligned_wide_access_panics(#[case] index: u64, #[case] why: Option<&str>) {
    let k = Builder::new("k", [1, 1, 1]);
    let (x, at) = (k.update("x", DType::I64), k.scalar("at", DType::I64));
    x.set(0, x.get_wide(at, 2) + 1);
    let function = k.build().unwrap();
    let before = bytes(0..5);
    match why {
        None => {
            let after = run(&function, [1; 3], &[before], &[index]);
            assert_eq!(after, [bytes([3, 4, 2, 3, 4])]);
        }
        Some(why) => assert_eq!(panic_message(&function, before, &[index]), why),
    }
}

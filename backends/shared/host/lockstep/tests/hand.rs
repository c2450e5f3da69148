//! Handwritten functions, cube by cube.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use millstream_ir::ssa::{Axis, Builder, Function, Position};
use millstream_ir::{DType, Program, ReduceOp};
use millstream_lockstep::native;
use millstream_protocol::{Cube, Kernel, NativeArgs, NativeView};
use rstest::rstest;

/// Runs all cubes of a launch.
fn run(function: &Function, counts: [u32; 3], buffers: &mut [Vec<u64>], words: &[u64]) {
    let native = native(function).unwrap_or_else(|error| panic!("{error}"));
    let program = Arc::new(Program::Ssa(function.clone()));
    let kernel = Kernel::from_program("tried", program).unwrap_or_else(|error| panic!("{error}"));
    let view = |buffer: &mut Vec<u64>| NativeView {
        pointer: buffer.as_mut_ptr().cast(),
        bytes: buffer.len() as u64 * 8,
    };
    let views: Vec<NativeView> = buffers.iter_mut().map(view).collect();
    let all = counts.iter().product::<u32>();
    for index in 0..u64::from(all) {
        let cube = Cube::new(index, counts);
        // SAFETY: the buffers live, are aligned for every type, and nothing else touches them; each cube runs once.
        let arguments = unsafe { NativeArgs::new(kernel.signature(), &views, words, &[], cube) };
        native(&cube, &arguments);
    }
}

/// Returns the message a launch panics with.
fn panic_message(function: &Function, buffers: &mut [Vec<u64>], words: &[u64]) -> String {
    let launch = AssertUnwindSafe(|| run(function, [1; 3], buffers, words));
    let payload = catch_unwind(launch).expect_err("the launch panics");
    *payload.downcast::<String>().expect("a message")
}

#[test]
fn handwritten_saxpy_computes_saxpy() {
    let k = Builder::new("saxpy", [96, 1, 1]);
    let (x, y) = (k.read("x", DType::F64), k.update("y", DType::F64));
    let (a, n) = (k.scalar("a", DType::F64), k.scalar("n", DType::I64));
    k.range(k.index(), n, k.count(), |i| {
        y.set(i, a * x.get(i) + y.get(i));
    });
    let function = k.build().expect("the function is valid");
    let x: Vec<u64> = (0..1000).map(|i| f64::from(i).to_bits()).collect();
    let mut buffers = [x.clone(), x];
    run(
        &function,
        [3, 1, 1],
        &mut buffers,
        &[0.5_f64.to_bits(), 999],
    );
    let found = buffers[1].iter().map(|bits| f64::from_bits(*bits));
    let expected = (0..1000).map(|i| if i < 999 { f64::from(i) * 1.5 } else { 999.0 });
    assert!(found.eq(expected));
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
        sum + turns.get().reduce_row(ReduceOp::Max) * 1_000_000,
    );
    let function = k.build().expect("the function is valid");
    let mut buffers = [vec![0; 32]];
    run(&function, [2, 1, 1], &mut buffers, &[]);
    let turns = |me: u64| me.div_ceil(2) + me / 2 * 100;
    let expected = (0..32).map(|nth| {
        let (cube, me) = (nth / 16, nth % 16);
        turns(15 - me) + cube * 10_000 + turns(me / 8 * 8 + 7) * 1_000_000
    });
    assert!(buffers[0].iter().copied().eq(expected), "{buffers:?}");
}

#[rstest]
#[case(4, "access `x[4]` of width 1 is out of bounds, `x` has 4 elements")]
#[case(-1, "access `x[-1]` of width 1 is out of bounds, `x` has 4 elements")]
#[case(i64::MIN, "is out of bounds, `x` has 4 elements")]
fn access_out_of_bounds_panics(#[case] index: i64, #[case] why: &str) {
    for writes in [true, false] {
        let k = Builder::new("k", [2, 1, 1]);
        let (x, at) = (k.update("x", DType::I64), k.scalar("at", DType::I64));
        match writes {
            true => x.set(at, 1),
            false => x.set(0, x.get(at)),
        }
        let function = k.build().expect("the function is valid");
        let message = panic_message(&function, &mut [vec![0; 4]], &[index as u64]);
        assert!(message.contains(why), "{message}");
    }
}

#[rstest]
#[case(2, None)]
#[case(
    1,
    Some("access `x[1]` of width 2 is misaligned, the index must be a multiple of 2")
)]
#[case(
    4,
    Some(
        "access `x[4]` of width 2 is out of bounds, `x` has 5 elements; compare the index with the length first"
    )
)]
fn misaligned_wide_access_panics(#[case] index: u64, #[case] why: Option<&str>) {
    let k = Builder::new("k", [1, 1, 1]);
    let (x, at) = (k.update("x", DType::I64), k.scalar("at", DType::I64));
    x.set(0, x.get_wide(at, 2) + 1);
    let function = k.build().expect("the function is valid");
    let mut buffers = [(0..5).collect::<Vec<u64>>()];
    match why {
        None => {
            run(&function, [1; 3], &mut buffers, &[index]);
            assert_eq!(buffers[0], [3, 4, 2, 3, 4]);
        }
        Some(why) => assert_eq!(panic_message(&function, &mut buffers, &[index]), why),
    }
}

/// A loop whose end is never reached in exact arithmetic still ends.
#[rstest]
#[case(0, 0)]
#[case(-3, 0)]
#[case(i64::MAX, 1)]
#[case(1 << 62, 2)]
fn loops_end(#[case] step: i64, #[case] turns: u64) {
    let k = Builder::new("loops", [4, 1, 1]);
    let (out, step_word) = (k.write("out", DType::I64), k.scalar("step", DType::I64));
    let count = k.var("count", 0);
    k.range(0, i64::MAX, step_word, |_| count.set(count.get() + 1));
    out.set(k.thread(), count.get());
    let function = k.build().expect("the function is valid");
    let mut buffers = [vec![9; 4]];
    run(&function, [1; 3], &mut buffers, &[step as u64]);
    assert_eq!(buffers[0], [turns; 4]);
}

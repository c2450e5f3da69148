//! Thread functions written by hand with the SSA builder.

use millstream_ir::ssa::{Axis, Builder, Position};
use millstream_ir::{DType, Program, ReduceOp};
use rstest::rstest;

use crate::support::Gpu;

fn bytes<const N: usize, T>(values: &[T], to: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(to).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let each = bytes.chunks(4).map(|word| word.try_into().unwrap());
    each.map(f32::from_le_bytes).collect()
}

#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn a_handwritten_saxpy_computes_saxpy() {
    let k = Builder::new("saxpy", [96, 1, 1]);
    let (x, y) = (k.read("x", DType::F32), k.update("y", DType::F32));
    let (a, n) = (k.scalar("a", DType::F32), k.scalar("n", DType::I64));
    k.range(k.index(), n, k.count(), |i| {
        y.set(i, a * x.get(i) + y.get(i));
    });
    let function = k.build().unwrap();
    let x: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let buffers = [
        bytes(&x, |x| x.to_le_bytes()),
        bytes(&x, |x| x.to_le_bytes()),
    ];
    let gpu = Gpu::new(1);
    let words = [u64::from(0.5_f32.to_bits()), 999];
    let outputs = gpu.run(Program::Ssa(function), 3, &buffers, &words);
    let mut expected: Vec<f32> = x.iter().map(|x| 0.5 * x + x).collect();
    expected[999] = 999.0;
    assert_eq!(floats(&outputs[1]), expected);
    assert_eq!(
        gpu.launched(),
        "ms_tested <<<[3, 1, 1], [96, 1, 1], 0>>> priority 0"
    );
    gpu.close();
}

/// Each cube transposes tiles of 16 x 16 through shared memory. Rows are 17 elements apart, which avoids bank
/// conflicts.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn writes_before_a_barrier_are_visible_to_all_threads_after_it() {
    let k = Builder::new("transpose", [16, 4, 1]);
    let (from, to) = (k.read("from", DType::F32), k.write("to", DType::F32));
    let n = k.scalar("n", DType::I64);
    let tile = k.shared("tile", DType::F32, 16 * 17);
    let (x, y) = (k.thread(), k.position(Position::Thread, Axis::Y));
    k.range(k.cube(), n / 16 * (n / 16), k.cubes(), |nth| {
        let (row, column) = (nth / (n / 16) * 16, nth % (n / 16) * 16);
        k.unrolled(4, |turn| {
            let line = y + turn * 4;
            tile.set(line * 17 + x, from.get((row + line) * n + column + x));
        });
        k.barrier();
        k.unrolled(4, |turn| {
            let line = y + turn * 4;
            to.set((column + line) * n + row + x, tile.get(x * 17 + line));
        });
        k.barrier();
    });
    let function = k.build().unwrap();
    let n = 48;
    let from: Vec<f32> = (0..n * n).map(|i| i as f32).collect();
    let buffers = [bytes(&from, |x| x.to_le_bytes()), vec![0; 4 * n * n]];
    let gpu = Gpu::new(2);
    let outputs = gpu.run(Program::Ssa(function), 4, &buffers, &[n as u64]);
    let expected: Vec<f32> = (0..n * n).map(|i| from[i % n * n + i / n]).collect();
    assert_eq!(floats(&outputs[1]), expected);
    gpu.close();
}

/// Cubes of any shape can reduce, whether or not their warps are full.
#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn every_thread_gets_the_result_of_a_cubes_reduction(
    #[values([1, 1, 1], [7, 1, 1], [32, 1, 1], [33, 1, 1], [64, 1, 1], [100, 1, 1], [8, 6, 2], [16, 3, 1])]
    threads: [u32; 3],
) {
    let k = Builder::new("reduce", threads);
    let out = k.write("out", DType::I64);
    let [x, y, z] = Axis::ALL.map(|axis| k.position(Position::Thread, axis));
    let [width, height, _] = threads.map(i64::from);
    let me = x + (y + z * height) * width;
    out.set(me * 3, me.reduce(ReduceOp::Sum));
    out.set(me * 3 + 1, (me * 7 % 11).reduce(ReduceOp::Max));
    let is_wide = !threads[0].is_power_of_two() || threads[0] > 32;
    let row = if is_wide {
        me
    } else {
        me.reduce_row(ReduceOp::Sum)
    };
    out.set(me * 3 + 2, row);
    let function = k.build().unwrap();
    let count = threads.iter().product::<u32>() as i64;
    let gpu = Gpu::new(5);
    let outputs = gpu.run(
        Program::Ssa(function),
        1,
        &[vec![0; 24 * count as usize]],
        &[],
    );
    let max = (0..count).map(|i| i * 7 % 11).max().unwrap();
    let expected = (0..count).flat_map(|me| {
        let first = me / width * width;
        let row = if is_wide {
            me
        } else {
            (first..first + width).sum()
        };
        [count * (count - 1) / 2, max, row]
    });
    let expected: Vec<u8> = expected.flat_map(i64::to_le_bytes).collect();
    assert_eq!(outputs[0], expected);
    gpu.close();
}

#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn concurrent_atomic_additions_are_all_counted(
    #[values(DType::I32, DType::U32, DType::I64, DType::U64, DType::F32, DType::F64)] dtype: DType,
) {
    let k = Builder::new("count", [64, 1, 1]);
    let counts = k.update("counts", dtype);
    let shared = k.shared("partial", dtype, 4);
    let one = k.constant(1).cast(dtype);
    k.when(k.thread().lt(4), || {
        shared.set(k.thread(), k.bits(dtype, 0));
    });
    k.barrier();
    shared.add(k.thread() % 4, one);
    k.barrier();
    k.when(k.thread().lt(4), || {
        counts.add(k.thread(), shared.get(k.thread()));
    });
    let function = k.build().unwrap();
    let gpu = Gpu::new(6);
    let outputs = gpu.run(Program::Ssa(function), 5, &[vec![0; 4 * dtype.size()]], &[]);
    let expected: Vec<u8> = match dtype {
        DType::F32 => 80.0_f32.to_le_bytes().to_vec(),
        DType::F64 => 80.0_f64.to_le_bytes().to_vec(),
        _ => 80_u64.to_le_bytes()[..dtype.size()].to_vec(),
    };
    assert_eq!(outputs[0], expected.repeat(4));
    gpu.close();
}

/// A loop whose step is zero or negative has no iterations. Threads whose bounds differ leave a loop independently.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn loops_end_for_steps_below_one_and_for_bounds_that_differ_by_thread() {
    let k = Builder::new("loops", [32, 1, 1]);
    let out = k.write("out", DType::I64);
    let step = k.scalar("step", DType::I64);
    let turns = k.var("turns", 0);
    k.range(0, 10, step, |_| turns.set(turns.get() + 100));
    k.range(k.thread(), 40, 9, |_| turns.set(turns.get() + 1));
    k.either(
        (k.thread() % 2).eq(0),
        || out.set(k.thread(), turns.get()),
        || out.set(k.thread(), -turns.get()),
    );
    let function = k.build().unwrap();
    let gpu = Gpu::new(8);
    for (step, first_loop) in [(0, 0), (-1_i64 as u64, 0), (4, 300)] {
        let program = Program::Ssa(function.clone());
        let outputs = gpu.run(program, 1, &[vec![0; 8 * 32]], &[step]);
        let expected = (0..32_i64).flat_map(|me| {
            let turns = first_loop + (me..40).step_by(9).count() as i64;
            (if me % 2 == 0 { turns } else { -turns }).to_le_bytes()
        });
        assert_eq!(outputs[0], expected.collect::<Vec<u8>>(), "step {step}");
    }
    gpu.close();
}

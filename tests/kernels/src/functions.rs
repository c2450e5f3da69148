//! SSA functions that are written by hand, with the expected contents of their buffers.

use millstream_ir::ssa::{Axis, Builder, Function, Position, SUBGROUP_MAX, Shuffle};
use millstream_ir::{DType, Program, ReduceOp};

use crate::Runs;
use crate::data::elements;

/// A launch of a function.
pub struct Case {
    /// The function.
    pub function: Function,
    /// The number of cubes along x.
    pub cubes: u32,
    /// The contents of the buffers before.
    pub buffers: Vec<Vec<u8>>,
    /// The launch words.
    pub words: Vec<u64>,
    /// The contents of the last buffer afterwards.
    pub expected: Vec<u8>,
}

impl Case {
    /// Runs it, and asserts that the last buffer has the expected contents.
    pub fn assert_on(&self, device: &impl Runs) {
        let program = Program::Ssa(self.function.clone());
        let outputs = device.run(program, self.cubes, &self.buffers, &self.words);
        let last = &outputs[outputs.len() - 1];
        let differs = last.iter().zip(&self.expected).position(|(a, b)| a != b);
        assert_eq!(last.len(), self.expected.len(), "{}", self.function.name);
        assert_eq!(differs, None, "byte of `{}`", self.function.name);
    }
}

fn bytes(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

/// `y = a x + y` for all elements but the last one.
pub fn saxpy() -> Case {
    let k = Builder::new("saxpy", [96, 1, 1]);
    let (x, y) = (k.read("x", DType::F32), k.update("y", DType::F32));
    let (a, n) = (k.scalar("a", DType::F32), k.scalar("n", DType::I64));
    k.range(k.index(), n, k.count(), |i| {
        y.set(i, a * x.get(i) + y.get(i));
    });
    let values = || (0..1000).map(|i| i as f32);
    let result = |x: f32| if x < 999.0 { 0.5 * x + x } else { x };
    Case {
        function: k.build().unwrap(),
        cubes: 3,
        buffers: vec![bytes(values()), bytes(values())],
        words: vec![u64::from(0.5_f32.to_bits()), 999],
        expected: bytes(values().map(result)),
    }
}

/// Each cube transposes tiles of 16 x 16 through shared memory. Rows are 17 elements apart, which avoids bank
/// conflicts.
pub fn transpose() -> Case {
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
    let n = 48;
    Case {
        function: k.build().unwrap(),
        cubes: 4,
        buffers: vec![bytes((0..n * n).map(|i| i as f32)), vec![0; 4 * n * n]],
        words: vec![n as u64],
        expected: bytes((0..n * n).map(|i| (i % n * n + i / n) as f32)),
    }
}

/// Reductions over a cube of any shape, and over its subgroups, whether or not its warps are full.
pub fn reductions(threads: [u32; 3]) -> Case {
    let k = Builder::new("reduce", threads);
    let out = k.write("out", DType::I64);
    let [x, y, z] = Axis::ALL.map(|axis| k.position(Position::Thread, axis));
    let [width, height, _] = threads.map(i64::from);
    let me = x + (y + z * height) * width;
    out.set(me * 3, me.reduce(ReduceOp::Sum));
    out.set(me * 3 + 1, (me * 7 % 11).reduce(ReduceOp::Max));
    // The widest subgroup.
    let subgroup = threads[0] & threads[0].wrapping_neg();
    let subgroup = subgroup.min(SUBGROUP_MAX);
    out.set(me * 3 + 2, me.reduce_subgroup(subgroup, ReduceOp::Sum));
    let count = threads.iter().product::<u32>() as i64;
    let max = (0..count).map(|i| i * 7 % 11).max().unwrap();
    let expected = (0..count).flat_map(|me| {
        let first = me / i64::from(subgroup) * i64::from(subgroup);
        let sum = (first..first + i64::from(subgroup)).sum();
        [count * (count - 1) / 2, max, sum]
    });
    Case {
        function: k.build().unwrap(),
        cubes: 1,
        buffers: vec![vec![0; 24 * count as usize]],
        words: Vec::new(),
        expected: expected.flat_map(i64::to_le_bytes).collect(),
    }
}

/// Each shuffle of the values of a type by numbers inside and outside of the subgroup, which differ from thread to thread, or
/// not; whether or not the warps of the cube are full. `width` divides the threads along x.
pub fn shuffles(dtype: DType, threads: [u32; 3], width: u32) -> Case {
    let k = Builder::new("shuffle", threads);
    let (x, out) = (k.read("x", dtype), k.write("out", dtype));
    let [i, y, z] = Axis::ALL.map(|axis| k.position(Position::Thread, axis));
    let [across, height, _] = threads.map(i64::from);
    let me = i + (y + z * height) * across;
    let count = i64::from(threads.iter().product::<u32>());
    let own = |me: i64| me * 5 % (i64::from(width) + 3) - 1;
    let value = x.get(me);
    let (mut kinds, mut at) = (Vec::new(), 0);
    for from in Shuffle::ALL {
        let varying = value.shuffle(from, width, me * 5 % (i64::from(width) + 3) - 1);
        out.set(me + at, varying);
        kinds.push((from, None));
        at += count;
        for by in [0, 1, i64::from(width) - 1, i64::from(width), 33, -1] {
            out.set(me + at, value.shuffle(from, width, by));
            kinds.push((from, Some(by)));
            at += count;
        }
    }
    let elements = elements(dtype, count as usize, 7, true);
    let size = dtype.size();
    let of = |nth: i64| {
        let element = &elements[nth as usize * size..][..size];
        match dtype {
            // Any other byte is loaded as true, and stored as 1.
            DType::Bool => vec![u8::from(element[0] != 0)],
            _ => element.to_vec(),
        }
    };
    let expected = kinds.iter().flat_map(|(from, by)| {
        let of = &of;
        (0..count).flat_map(move |me| {
            let (width, by) = (i64::from(width), by.unwrap_or_else(|| own(me)));
            let place = me % width;
            let source = match from {
                Shuffle::Lane => by,
                Shuffle::Xor => place ^ by,
                Shuffle::Down => place + by,
                Shuffle::Up => place - by,
            };
            let inside = 0..width;
            let is_there = inside.contains(&by) && inside.contains(&source);
            of(me - place + if is_there { source } else { place })
        })
    });
    let expected = expected.collect();
    Case {
        function: k.build().unwrap(),
        cubes: 1,
        buffers: vec![elements.clone(), vec![0; at as usize * size]],
        words: Vec::new(),
        expected,
    }
}

/// Sums of subgroups of floats, in the one order that every device has.
pub fn subgroup_sums(threads: [u32; 3], width: u32) -> Case {
    let k = Builder::new("sums", threads);
    let (x, out) = (k.read("x", DType::F32), k.write("out", DType::F32));
    let [i, y, z] = Axis::ALL.map(|axis| k.position(Position::Thread, axis));
    let [across, height, _] = threads.map(i64::from);
    let me = i + (y + z * height) * across;
    let sum = x.get(me).reduce_subgroup(width, ReduceOp::Sum);
    out.set(me, sum);
    let count = threads.iter().product::<u32>();
    let values: Vec<f32> = (0..count)
        .map(|at| 1.0 / (at * at % 89 + 1) as f32)
        .collect();
    let expected = values.chunks(width as usize).flat_map(|values| {
        let mut values = values.to_vec();
        while values.len() > 1 {
            let upper = values.split_off(values.len() / 2);
            let pairs = values.iter_mut().zip(upper);
            pairs.for_each(|(lower, upper)| *lower += upper);
        }
        vec![values[0]; width as usize]
    });
    Case {
        function: k.build().unwrap(),
        cubes: 1,
        buffers: vec![
            values.iter().copied().flat_map(f32::to_le_bytes).collect(),
            vec![0; 4 * count as usize],
        ],
        words: Vec::new(),
        expected: expected.flat_map(f32::to_le_bytes).collect(),
    }
}

/// Atomic additions to shared memory and to a buffer.
pub fn additions(dtype: DType) -> Case {
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
    let expected: Vec<u8> = match dtype {
        DType::F32 => 80.0_f32.to_le_bytes().to_vec(),
        DType::F64 => 80.0_f64.to_le_bytes().to_vec(),
        _ => 80_u64.to_le_bytes()[..dtype.size()].to_vec(),
    };
    Case {
        function: k.build().unwrap(),
        cubes: 5,
        buffers: vec![vec![0; 4 * dtype.size()]],
        words: Vec::new(),
        expected: expected.repeat(4),
    }
}

/// A loop whose step is zero or negative has no iterations. Threads whose bounds differ leave a loop independently.
pub fn loops(step: i64) -> Case {
    let k = Builder::new("loops", [32, 1, 1]);
    let out = k.write("out", DType::I64);
    let by = k.scalar("step", DType::I64);
    let turns = k.var("turns", 0);
    k.range(0, 10, by, |_| turns.set(turns.get() + 100));
    k.range(k.thread(), 40, 9, |_| turns.set(turns.get() + 1));
    k.either(
        (k.thread() % 2).eq(0),
        || out.set(k.thread(), turns.get()),
        || out.set(k.thread(), -turns.get()),
    );
    let first_loop = match step > 0 {
        true => 100 * (0..10).step_by(step as usize).count() as i64,
        false => 0,
    };
    let expected = (0..32_i64).flat_map(|me| {
        let turns = first_loop + (me..40).step_by(9).count() as i64;
        (if me % 2 == 0 { turns } else { -turns }).to_le_bytes()
    });
    Case {
        function: k.build().unwrap(),
        cubes: 1,
        buffers: vec![vec![0; 8 * 32]],
        words: vec![step as u64],
        expected: expected.collect(),
    }
}

/// Loops whose last index is so near the greatest `i64` that the sum of it and the step is none.
pub fn loops_at_the_end(step: i64) -> Case {
    const END: i64 = i64::MAX;
    let k = Builder::new("loops_at_the_end", [1, 1, 1]);
    let out = k.write("out", DType::I64);
    let (by, end) = (k.scalar("step", DType::I64), k.scalar("end", DType::I64));
    let turns = k.var("turns", 0);
    k.range(END - 10, end, by, |_| turns.set(turns.get() + 10_000));
    k.range(END - 10, end, 3, |_| turns.set(turns.get() + 100));
    k.range(END - 10, END, 4, |_| turns.set(turns.get() + 1));
    out.set(k.thread(), turns.get());
    let first_loop = 10_000 * (0..10).step_by(step as usize).count() as i64;
    Case {
        function: k.build().unwrap(),
        cubes: 1,
        buffers: vec![vec![0; 8]],
        words: vec![step as u64, END as u64],
        expected: (first_loop + 403).to_le_bytes().to_vec(),
    }
}

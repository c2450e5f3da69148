//! The functions, and their launches.

use millstream_ir::ssa::{Axis, Builder, Function, Position, Val};
use millstream_ir::{CompareOp, DType, UnaryOp};

use crate::hand;

/// A function and the same in plain Rust.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) function: Function,
    pub(crate) cubes: [u32; 3],
    pub(crate) buffers: Vec<Vec<f32>>,
    pub(crate) words: Vec<u64>,
    pub(crate) hand: hand::Hand,
    /// The number of parts in which the plain loop runs.
    pub(crate) pieces: u64,
}

impl Row {
    pub(crate) fn assert_close(&self, ours: &[Vec<f32>], theirs: &[Vec<f32>]) {
        for (index, (a, b)) in ours
            .iter()
            .flatten()
            .zip(theirs.iter().flatten())
            .enumerate()
        {
            let close = (a - b).abs() <= 1e-4 * a.abs().max(b.abs()).max(1.0);
            assert!(close, "{}: element {index} is {a}, not {b}", self.name);
        }
    }
}

/// Makes a row with a name.
type Make = fn(&'static str) -> Row;

/// The names of all rows, and functions that make them.
pub(crate) const ROWS: [(&str, Make); 7] = [
    ("saxpy 16 M", |name| saxpy(name, 1 << 24)),
    ("saxpy 64 k", |name| saxpy(name, 1 << 16)),
    ("particles 1 M", |name| particles(name, 1 << 20)),
    ("particles 16 k", |name| particles(name, 1 << 14)),
    ("tiled product 512", |name| product(name, 512)),
    ("Mandelbrot 512", |name| mandelbrot(name, 512)),
    ("histogram 1 M", |name| histogram(name, 1 << 20)),
];

/// Pseudo-random elements between -1 and 1.
fn elements(len: usize, seed: usize) -> Vec<f32> {
    (0..len)
        .map(|index| ((index * 7919 + seed * 31) % 2003) as f32 / 1001.5 - 1.0)
        .collect()
}

fn saxpy(name: &'static str, n: usize) -> Row {
    let k = Builder::new("saxpy", [256, 1, 1]);
    let (x, y) = (k.read("x", DType::F32), k.update("y", DType::F32));
    let a = k.scalar("a", DType::F32);
    let (i, n_of_y) = (k.index(), k.len(y).cast(DType::I64));
    k.when(i.lt(n_of_y), || y.set(i, a * x.get(i) + y.get(i)));
    Row {
        name,
        function: k.build().expect("the function is valid"),
        cubes: [n.div_ceil(256) as u32, 1, 1],
        buffers: vec![elements(n, 1), elements(n, 2)],
        words: vec![0.5_f32.to_bits().into(), n as u64],
        hand: hand::saxpy,
        pieces: 64,
    }
}

/// The kernel of `examples/bevy`: three centres that circle attract particles and drag them along.
fn particles(name: &'static str, n: usize) -> Row {
    let k = Builder::new("swirl", [256, 1, 1]);
    let particles = k.update("particles", DType::F32);
    let (time, step) = (k.scalar("time", DType::F32), k.scalar("step", DType::F32));
    let (i, len) = (k.index(), k.len(particles).cast(DType::I64) / 4);
    k.when(i.lt(len), || {
        let all = particles.get_wide(i * 4, 4);
        let position = [all.lane(0), all.lane(1)];
        let velocity = [all.lane(2), all.lane(3)];
        let force = position.map(|position| k.var("force", position * -0.15));
        k.range(0, 3, 1, |centre| {
            let angle = time * 0.9 + centre.cast(DType::F32) * 2.094_395_1;
            let at = [
                angle.unary(UnaryOp::Cos) * 0.75,
                angle.unary(UnaryOp::Sin) * 0.5,
            ];
            let to = [at[0] - position[0], at[1] - position[1]];
            let squared = to[0] * to[0] + to[1] * to[1] + 0.006;
            let along = [to[0] * 0.09 - to[1] * 0.05, to[1] * 0.09 + to[0] * 0.05];
            for (force, along) in force.iter().zip(along) {
                force.set(force.get() + along / squared);
            }
        });
        let velocity = [0, 1].map(|axis| (velocity[axis] + step * force[axis].get()) * 0.996);
        let position = [0, 1].map(|axis| position[axis] + step * velocity[axis]);
        let all: Vec<Val<'_>> = position.into_iter().chain(velocity).collect();
        particles.set(i * 4, k.pack(&all));
    });
    Row {
        name,
        function: k.build().expect("the function is valid"),
        cubes: [n.div_ceil(256) as u32, 1, 1],
        buffers: vec![elements(4 * n, 1)],
        words: vec![
            0.7_f32.to_bits().into(),
            (1.0_f32 / 60.0).to_bits().into(),
            4 * n as u64,
        ],
        hand: hand::particles,
        pieces: 64,
    }
}

/// A product of square matrices, in tiles of 16 x 16 of shared memory.
fn product(name: &'static str, n: usize) -> Row {
    const TILE: i64 = 16;
    let k = Builder::new("product", [16, 16, 1]);
    let [a, b] = ["a", "b"].map(|name| k.read(name, DType::F32));
    let c = k.write("c", DType::F32);
    let n_of = k.scalar("n", DType::I64);
    let [left, right] = ["left", "right"].map(|name| k.shared(name, DType::F32, 256));
    let (x, y) = (k.thread(), k.position(Position::Thread, Axis::Y));
    let row = k.position(Position::Cube, Axis::Y) * TILE + y;
    let column = k.cube() * TILE + x;
    let sum = k.var("sum", 0.0_f32);
    k.range(0, n_of, TILE, |start| {
        left.set(y * TILE + x, a.get(row * n_of + start + x));
        right.set(y * TILE + x, b.get((start + y) * n_of + column));
        k.barrier();
        k.unrolled(TILE as u32, |i| {
            sum.set(left.get(y * TILE + i) * right.get(i * TILE + x) + sum.get());
        });
        k.barrier();
    });
    c.set(row * n_of + column, sum.get());
    Row {
        name,
        function: k.build().expect("the function is valid"),
        cubes: [n as u32 / 16, n as u32 / 16, 1],
        buffers: vec![elements(n * n, 1), elements(n * n, 2), vec![0.0; n * n]],
        words: vec![n as u64],
        hand: hand::product,
        pieces: 16,
    }
}

/// The number of iterations for each point of a square.
fn mandelbrot(name: &'static str, n: usize) -> Row {
    let k = Builder::new("mandelbrot", [256, 1, 1]);
    let out = k.write("out", DType::F32);
    let n_of = k.scalar("n", DType::I64);
    let i = k.index();
    let scale = k.constant(3.0_f32) / n_of.cast(DType::F32);
    let cx = (i % n_of).cast(DType::F32) * scale - 2.25;
    let cy = (i / n_of).cast(DType::F32) * scale - 1.5;
    let [x, y] = ["x", "y"].map(|name| k.var(name, 0.0_f32));
    let count = k.var("count", 0.0_f32);
    k.loop_(|| {
        let squares = [x, y].map(|at| at.get() * at.get());
        let far = (squares[0] + squares[1]).compare(CompareOp::Gt, 4.0_f32);
        k.when(far, || k.break_());
        k.when(count.get().compare(CompareOp::Ge, 200.0_f32), || k.break_());
        let next = squares[0] - squares[1] + cx;
        y.set(x.get() * y.get() * 2.0_f32 + cy);
        x.set(next);
        count.set(count.get() + 1.0_f32);
    });
    out.set(i, count.get());
    Row {
        name,
        function: k.build().expect("the function is valid"),
        cubes: [(n * n / 256) as u32, 1, 1],
        buffers: vec![vec![0.0; n * n]],
        words: vec![n as u64],
        hand: hand::mandelbrot,
        pieces: 64,
    }
}

/// Counts of values in shared memory, and sums of them in a buffer.
fn histogram(name: &'static str, n: usize) -> Row {
    const BINS: i64 = 64;
    let k = Builder::new("histogram", [256, 1, 1]);
    let (x, bins) = (k.read("x", DType::F32), k.update("bins", DType::F32));
    let n_of = k.scalar("n", DType::I64);
    let shared = k.shared("counts", DType::F32, BINS as u32);
    k.range(k.index(), n_of, k.count(), |i| {
        let bin = ((x.get(i) + 1.0) * 31.5_f32).cast(DType::I64);
        shared.add(bin, k.constant(1.0_f32));
    });
    k.barrier();
    k.when(k.thread().lt(BINS), || {
        bins.add(k.thread(), shared.get(k.thread()));
    });
    Row {
        name,
        function: k.build().expect("the function is valid"),
        cubes: [64, 1, 1],
        buffers: vec![elements(n, 1), vec![0.0; BINS as usize]],
        words: vec![n as u64],
        hand: hand::histogram,
        pieces: 1,
    }
}

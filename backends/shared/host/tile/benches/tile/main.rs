//! The interpreter compared with handwritten loops, on one thread, in one run: `cargo bench -p millstream-tile
//! --bench tile [-- [--tiles] [--narrow] [ROW]]`. With `--tiles` it makes no machine code, with `--narrow` its registers
//! have 256 bits.
//!
//! Each row is measured in rounds, the two alternating, so that other load on the machine affects both. The output
//! has medians and, in brackets, minima.

#![allow(missing_docs, reason = "a bench has no users")]

mod hand;

use std::hint::black_box;
use std::time::Instant;

use millstream_ir::nest::{Access, Buffer, BufferMode, Level, Op, Store, Stride, Value};
use millstream_ir::{BinaryOp, Blocking, DType, Nest, Program, ReduceOp, UnaryOp};
use millstream_protocol::NativeView;
use millstream_tile::{Code, Options, SingleThread};

/// Builds a nest over `f32`.
#[derive(Default)]
struct Draft(Nest);

impl Draft {
    fn new(outer: usize, inner: usize, words: usize) -> Self {
        Self(Nest {
            outer,
            inner,
            words,
            ..Nest::default()
        })
    }

    fn access(&mut self, mode: BufferMode, strides: &[Stride]) -> u16 {
        let buffer = self.0.buffers.len() as u16;
        self.0.buffers.push(Buffer {
            dtype: DType::F32,
            mode,
        });
        self.0.accesses.push(Access {
            buffer,
            offset: None,
            strides: strides.to_vec(),
        });
        buffer
    }

    fn value(&mut self, op: Op) -> u16 {
        self.0.values.push(Value {
            dtype: DType::F32,
            op,
        });
        self.0.values.len() as u16 - 1
    }

    fn load(&mut self, strides: &[Stride]) -> u16 {
        let access = self.access(BufferMode::Read, strides);
        self.value(Op::Load(access))
    }

    fn constant(&mut self, value: f32) -> u16 {
        self.value(Op::Const(value.to_bits().into()))
    }

    fn binary(&mut self, op: BinaryOp, a: u16, b: u16) -> u16 {
        self.value(Op::Binary(op, a, b))
    }

    fn store(mut self, value: u16, strides: &[Stride]) -> Code {
        let access = self.access(BufferMode::Write, strides);
        self.0.stores.push(Store {
            access,
            value,
            level: Level::Inner,
            scatter: None,
        });
        let has = |option: &str| std::env::args().any(|argument| argument == option);
        let mut options = Options {
            machine_code: !has("--tiles"),
            ..Options::default()
        };
        if has("--narrow") {
            options.blocking = Blocking::DEFAULT.vector(8);
        }
        Code::compile(&Program::Nest(self.0), options).expect("the program compiles")
    }
}

const ONE: [Stride; 1] = [Stride::One];
const ROW: [Stride; 2] = [Stride::Word(2), Stride::One];

fn chain() -> Code {
    let mut draft = Draft::new(1, 0, 1);
    let [a, b, c] = [0; 3].map(|_| draft.load(&ONE));
    let product = draft.binary(BinaryOp::Mul, a, b);
    let sum = draft.binary(BinaryOp::Add, product, c);
    let result = draft.value(Op::Unary(UnaryOp::Exp, sum));
    draft.store(result, &ONE)
}

fn gelu() -> Code {
    let mut draft = Draft::new(1, 0, 1);
    let x = draft.load(&ONE);
    let (k, s, one) = (
        draft.constant(0.044715),
        draft.constant(-1.595_769),
        draft.constant(1.0),
    );
    let square = draft.binary(BinaryOp::Mul, x, x);
    let cube = draft.binary(BinaryOp::Mul, square, x);
    let cube = draft.binary(BinaryOp::Mul, cube, k);
    let sum = draft.binary(BinaryOp::Add, cube, x);
    let scaled = draft.binary(BinaryOp::Mul, sum, s);
    let power = draft.value(Op::Unary(UnaryOp::Exp, scaled));
    let below = draft.binary(BinaryOp::Add, power, one);
    let result = draft.binary(BinaryOp::Div, x, below);
    draft.store(result, &ONE)
}

fn softmax() -> Code {
    let mut draft = Draft::new(1, 1, 3);
    let x = draft.load(&ROW);
    let greatest = draft.value(Op::Reduce(ReduceOp::Max, x));
    let below = draft.binary(BinaryOp::Sub, x, greatest);
    let power = draft.value(Op::Unary(UnaryOp::Exp, below));
    let sum = draft.value(Op::Reduce(ReduceOp::Sum, power));
    let one = draft.constant(1.0);
    let inverse = draft.binary(BinaryOp::Div, one, sum);
    let result = draft.binary(BinaryOp::Mul, power, inverse);
    draft.store(result, &ROW)
}

fn layer_norm() -> Code {
    let mut draft = Draft::new(1, 1, 5);
    let x = draft.load(&ROW);
    let [scale, shift] = [0; 2].map(|_| draft.load(&[Stride::Zero, Stride::One]));
    let sum = draft.value(Op::Reduce(ReduceOp::Sum, x));
    let count = draft.value(Op::Word(3));
    let mean = draft.binary(BinaryOp::Div, sum, count);
    let centered = draft.binary(BinaryOp::Sub, x, mean);
    let square = draft.binary(BinaryOp::Mul, centered, centered);
    let squares = draft.value(Op::Reduce(ReduceOp::Sum, square));
    let variance = draft.binary(BinaryOp::Div, squares, count);
    let epsilon = draft.value(Op::Word(4));
    let variance = draft.binary(BinaryOp::Add, variance, epsilon);
    let deviation = draft.value(Op::Unary(UnaryOp::Sqrt, variance));
    let one = draft.constant(1.0);
    let inverse = draft.binary(BinaryOp::Div, one, deviation);
    let normal = draft.binary(BinaryOp::Mul, centered, inverse);
    let scaled = draft.binary(BinaryOp::Mul, normal, scale);
    let shifted = draft.binary(BinaryOp::Add, scaled, shift);
    draft.store(shifted, &ROW)
}

/// Elements of a cache line.
const LINE: usize = 16;

type Hand = unsafe fn(&[f32], &[f32], &[f32], &mut [f32]);

/// Measures one row: the time of the interpreter, of the handwritten loop, and their ratio.
fn row(name: &str, code: &Code, hand: Hand, lens: [usize; 4], words: &[u64], times: u32) {
    let filter = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    if filter.is_some_and(|filter| !name.contains(&filter)) {
        return;
    }
    let buffer = |len: usize, seed: usize| -> Vec<f32> {
        (0..len + LINE)
            .map(|index| ((index * 7919 + seed * 31) % 2003) as f32 / 1001.5 - 1.0)
            .collect()
    };
    let mut memory: Vec<Vec<f32>> = lens
        .iter()
        .enumerate()
        .map(|(seed, len)| buffer(*len, seed))
        .collect();
    // Aligned to a cache line, like a device's memory.
    let lines = memory.iter_mut().zip(lens).map(|(buffer, len)| {
        let start = buffer.as_ptr().align_offset(4 * LINE);
        &mut buffer[start..start + len]
    });
    let mut memory: Vec<&mut [f32]> = lines.collect();
    let views: Vec<NativeView> = memory
        .iter_mut()
        .filter(|buffer| !buffer.is_empty())
        .map(|buffer| NativeView {
            pointer: buffer.as_mut_ptr().cast(),
            bytes: size_of_val(&buffer[..]) as u64,
        })
        .collect();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..41 {
        let start = Instant::now();
        for _ in 0..times {
            // SAFETY: the memory belongs to this bench.
            unsafe { code.run(black_box(&views), black_box(words), &mut SingleThread) }
                .expect("the launch runs");
        }
        ours.push(start.elapsed().as_secs_f64() / f64::from(times));
        let start = Instant::now();
        for _ in 0..times {
            let [a, b, c, out] = &mut memory[..] else {
                return;
            };
            // SAFETY: this machine has the instructions, which `main` has checked.
            unsafe { hand(black_box(a), black_box(b), black_box(c), black_box(out)) };
        }
        theirs.push(start.elapsed().as_secs_f64() / f64::from(times));
    }
    ours.sort_by(f64::total_cmp);
    theirs.sort_by(f64::total_cmp);
    let us = |all: &[f64]| format!("{:10.3} ({:10.3})", all[all.len() / 2] * 1e6, all[0] * 1e6);
    let ratio = ours[ours.len() / 2] / theirs[theirs.len() / 2];
    println!(
        "{name:28} ours {} us   by hand {} us   ratio {ratio:.2} ({:.2})",
        us(&ours),
        us(&theirs),
        ours[0] / theirs[0]
    );
}

/// Measures compiling ten operations, and their first launches: over tiles, and as machine code.
fn compiling() {
    const LEN: usize = 1000;
    let mut memory = [[0.5_f32; LEN]; 4];
    let views = memory.each_mut().map(|memory| NativeView {
        pointer: memory.as_mut_ptr().cast(),
        bytes: 4 * LEN as u64,
    });
    let mut times = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..300 {
        let start = Instant::now();
        let code = ten();
        times[0].push(start.elapsed());
        for times in &mut times[1..] {
            let start = Instant::now();
            // SAFETY: the memory belongs to this bench; nothing else reads the output.
            unsafe { code.run(black_box(&views), &[LEN as u64], &mut SingleThread) }
                .expect("the launch runs");
            times.push(start.elapsed());
        }
    }
    let [compiled, first, second, third] = times.map(|mut all| {
        all.sort();
        all[all.len() / 2].as_secs_f64() * 1e6
    });
    println!(
        "ten nodes: compiled in {compiled:.1} us, launched in {first:.1}, {second:.1}, {third:.1} us"
    );
}

/// The same nest as in the bench of other libraries.
fn ten() -> Code {
    let mut draft = Draft::new(1, 0, 1);
    let [a, b, c] = [0; 3].map(|_| draft.load(&ONE));
    let [half, least, most] = [0.5, -4.0, 4.0].map(|value| draft.constant(value));
    let mut last = draft.binary(BinaryOp::Mul, a, b);
    for (op, other) in [
        (BinaryOp::Add, c),
        (BinaryOp::Mul, half),
        (BinaryOp::Sub, a),
        (BinaryOp::Max, least),
        (BinaryOp::Min, most),
    ] {
        last = draft.binary(op, last, other);
    }
    last = draft.value(Op::Unary(UnaryOp::Exp, last));
    for (op, other) in [(BinaryOp::Mul, b), (BinaryOp::Add, c), (BinaryOp::Mul, a)] {
        last = draft.binary(op, last, other);
    }
    draft.store(last, &ONE)
}

fn main() {
    #[cfg(target_arch = "x86_64")]
    if !std::arch::is_x86_feature_detected!("avx512f") {
        println!("the handwritten loops need AVX-512");
        return;
    }
    let (chain, gelu, softmax, norm) = (chain(), gelu(), softmax(), layer_norm());
    for (name, n, times) in [
        ("(a*b+c).exp() 1 k", 1000, 10_000),
        ("(a*b+c).exp() 1 M", 1_000_000, 10),
        ("(a*b+c).exp() 16 M", 1 << 24, 1),
    ] {
        row(name, &chain, hand::chain, [n; 4], &[n as u64], times);
    }
    row(
        "gelu 16 M",
        &gelu,
        hand::gelu,
        [1 << 24, 0, 0, 1 << 24],
        &[1 << 24],
        1,
    );
    row(
        "gelu 64 k",
        &gelu,
        hand::gelu,
        [1 << 16, 0, 0, 1 << 16],
        &[1 << 16],
        50,
    );
    compiling();
    let million = 1 << 20;
    row(
        "softmax 1024 x 1024",
        &softmax,
        hand::softmax,
        [million, 0, 0, million],
        &[1024, 1024, 1024],
        10,
    );
    row(
        "softmax 64 x 1024",
        &softmax,
        hand::softmax,
        [1 << 16, 0, 0, 1 << 16],
        &[64, 1024, 1024],
        100,
    );
    let words = [
        64,
        1024,
        1024,
        u64::from(1024_f32.to_bits()),
        u64::from(1e-5_f32.to_bits()),
    ];
    row(
        "layer norm 64 x 1024",
        &norm,
        hand::layer_norm,
        [1 << 16, 1024, 1024, 1 << 16],
        &words,
        100,
    );
    let words = [
        1024,
        1024,
        1024,
        u64::from(1024_f32.to_bits()),
        u64::from(1e-5_f32.to_bits()),
    ];
    row(
        "layer norm 1024 x 1024",
        &norm,
        hand::layer_norm,
        [million, 1024, 1024, million],
        &words,
        10,
    );
}

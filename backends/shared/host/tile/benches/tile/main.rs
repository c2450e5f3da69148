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

use millstream_ir::{Blocking, Program};
use millstream_kernel_cases::nests;
use millstream_protocol::NativeView;
use millstream_tile::{Code, Options, SingleThread};

/// Compiles a nest.
fn code(text: &str) -> Code {
    let has = |option: &str| std::env::args().any(|argument| argument == option);
    let mut options = Options {
        machine_code: !has("--tiles"),
        ..Options::default()
    };
    if has("--narrow") {
        options.blocking = Blocking::DEFAULT.vector(8);
    }
    let nest = millstream_ir_text::nest(text).expect("the text is a nest");
    Code::compile(&Program::Nest(nest), options).expect("the program compiles")
}

const CHAIN: &str = "
    nest outer 1 inner 0 words 1
    buffer 0 f32 read  buffer 1 f32 read  buffer 2 f32 read  buffer 3 f32 write
    access 0 = buffer 0 [1]  access 1 = buffer 1 [1]  access 2 = buffer 2 [1]  access 3 = buffer 3 [1]
    %0 f32 = load 0  %1 f32 = load 1  %2 f32 = load 2  %3 f32 = mul %0 %1  %4 f32 = add %3 %2  %5 f32 = exp %4
    store inner 3 %5";

/// The constants are 0.044715, -1.595769 and 1.
const GELU: &str = "
    nest outer 1 inner 0 words 1
    buffer 0 f32 read  buffer 1 f32 write
    access 0 = buffer 0 [1]  access 1 = buffer 1 [1]
    %0 f32 = load 0  %1 f32 = const 0x3d372713  %2 f32 = const 0xbfcc4229  %3 f32 = const 0x3f800000
    %4 f32 = mul %0 %0  %5 f32 = mul %4 %0  %6 f32 = mul %5 %1  %7 f32 = add %6 %0  %8 f32 = mul %7 %2
    %9 f32 = exp %8  %10 f32 = add %9 %3  %11 f32 = div %0 %10
    store inner 1 %11";

const SOFTMAX: &str = "
    nest outer 1 inner 1 words 3
    buffer 0 f32 read  buffer 1 f32 write
    access 0 = buffer 0 [w2 1]  access 1 = buffer 1 [w2 1]
    %0 f32 = load 0  %1 f32 = reduce max %0  %2 f32 = sub %0 %1  %3 f32 = exp %2  %4 f32 = reduce sum %3
    %5 f32 = const 0x3f800000  %6 f32 = div %5 %4  %7 f32 = mul %3 %6
    store inner 1 %7";

/// The same nest as in the bench of other libraries. The constants are 0.5, -4 and 4.
const TEN: &str = "
    nest outer 1 inner 0 words 1
    buffer 0 f32 read  buffer 1 f32 read  buffer 2 f32 read  buffer 3 f32 write
    access 0 = buffer 0 [1]  access 1 = buffer 1 [1]  access 2 = buffer 2 [1]  access 3 = buffer 3 [1]
    %0 f32 = load 0  %1 f32 = load 1  %2 f32 = load 2
    %3 f32 = const 0x3f000000  %4 f32 = const 0xc0800000  %5 f32 = const 0x40800000
    %6 f32 = mul %0 %1  %7 f32 = add %6 %2  %8 f32 = mul %7 %3  %9 f32 = sub %8 %0  %10 f32 = max %9 %4
    %11 f32 = min %10 %5  %12 f32 = exp %11  %13 f32 = mul %12 %1  %14 f32 = add %13 %2  %15 f32 = mul %14 %0
    store inner 3 %15";

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
        let code = code(TEN);
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

fn main() {
    #[cfg(target_arch = "x86_64")]
    if !std::arch::is_x86_feature_detected!("avx512f") {
        println!("the handwritten loops need AVX-512");
        return;
    }
    let [chain, gelu, softmax] = [CHAIN, GELU, SOFTMAX].map(code);
    let [few, many] = [64, 1024].map(|rows| nests::layer_norm(rows, 1024));
    let norm = code(&few.text);
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
    row(
        "layer norm 64 x 1024",
        &norm,
        hand::layer_norm,
        [1 << 16, 1024, 1024, 1 << 16],
        &few.words,
        100,
    );
    row(
        "layer norm 1024 x 1024",
        &norm,
        hand::layer_norm,
        [million, 1024, 1024, million],
        &many.words,
        10,
    );
}

//! Kernels that use many PTX instructions, compiled by NVRTC from `probe.cu`. Their results on the fake are compared
//! with the same computations in Rust: each function here has the name of the kernel that it mirrors.

use std::collections::BTreeSet;

use millstream_client::arguments::{CubeCount, read, write};
use millstream_protocol::element::Element;
use millstream_protocol::kernel::Kernel;
use rstest::rstest;

use crate::support::*;

const THREADS: usize = 96;

/// Returns the kernel of an entry point of the probe.
fn kernel<T: Element, U: Element>(name: &str, text: &str) -> Kernel {
    let kernel = Kernel::new(name).reads::<T>("in").writes::<U>("out");
    kernel.threads([THREADS as u32, 1, 1]).source(ptx(text))
}

/// Runs one block of an entry point and returns its output.
fn run<T: Element, U: Element>(name: &str, text: &str, input: &[T], outputs: usize) -> Vec<U> {
    let gpu = gpu(1);
    let device = open(1);
    let (client, stream) = (device.new_client(), device.new_client().new_stream());
    let prepared = client.kernel(kernel::<T, U>(name, text)).unwrap();
    let (from, to) = (
        stream.create(input).unwrap(),
        stream.empty(outputs).unwrap(),
    );
    let arguments = (read(&from), write(&to));
    stream
        .launch(&prepared, CubeCount::d1(1), arguments)
        .unwrap();
    let output = stream.read(&to).wait().unwrap();
    drop((from, to, prepared, stream, client, device));
    gpu.assert_clean();
    output
}

/// Returns pseudo-random numbers, after a few edge cases.
fn words(count: usize) -> Vec<u64> {
    let edge_cases = [
        0,
        1,
        u64::MAX,
        1 << 31,
        1 << 63,
        0x7FFF_FFFF,
        0x8000_0000_7FFF_FFFF,
        9,
    ];
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    edge_cases
        .into_iter()
        .chain(std::iter::repeat_with(&mut next))
        .take(count)
        .collect()
}

/// Returns numbers from -20 to 20, both zeros included.
fn numbers() -> Vec<f32> {
    let of = |word: &u64| ((word >> 20) as f32 / (1_u64 << 43) as f32 - 1.0) * 20.0;
    let some = words(THREADS - 2);
    [0.0, -0.0].into_iter().chain(some.iter().map(of)).collect()
}

fn integers(a: u32, b: u32) -> [u32; 16] {
    let (signed_a, signed_b) = (a as i32, b as i32);
    let [a0, a1, _, a3] = a.to_le_bytes();
    let [_, b1, _, b3] = b.to_le_bytes();
    let dot = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    let dot = dot
        .map(|(a, b)| i32::from(a as i8) * i32::from(b as i8))
        .sum::<i32>()
        + 7;
    let first = if a == 0 { 0 } else { a.trailing_zeros() + 1 };
    let halves =
        (a & 0xFFFF).wrapping_add(b & 0xFFFF) & 0xFFFF | ((a >> 16).wrapping_add(b >> 16)) << 16;
    [
        a.leading_zeros() | a.count_ones() << 8 | first << 16,
        a.reverse_bits(),
        u32::from_le_bytes([b1, a1, a3, b3]),
        b << 7 | a >> 25,
        ((u64::from(a) * u64::from(b)) >> 32) as u32,
        ((i64::from(signed_a) * i64::from(signed_b)) >> 32) as u32,
        a / (b | 1),
        signed_a.wrapping_rem(signed_b | 1) as u32,
        dot as u32,
        a.abs_diff(b).wrapping_add(3),
        (a & b) ^ (!a | (b >> 3)),
        ((a << 5) as i32 >> 9) as u32,
        (signed_a.min(signed_b) as u32).wrapping_add(a.max(b)),
        i32::from(a0 as i8).wrapping_add((b & 0xFFFF) as i32) as u32,
        match a % 9 {
            0 => 3,
            1 => b.wrapping_mul(7),
            2 => b ^ 9,
            3 => b / 5,
            4 => b << 3,
            5 => !b,
            _ => a,
        },
        halves,
    ]
}

fn wide(a: u64, b: u64) -> [u64; 8] {
    let (signed_a, signed_b) = (a as i64, b as i64);
    [
        a.wrapping_mul(b),
        ((u128::from(a) * u128::from(b)) >> 64) as u64,
        ((i128::from(signed_a) * i128::from(signed_b)) >> 64) as u64,
        a / (b | 1),
        signed_a.wrapping_rem(signed_b | 1) as u64,
        a.rotate_right(b as u32 & 63),
        u64::from(a.leading_zeros() | b.count_ones() << 8),
        (a as f64 * 0.5) as u64,
    ]
}

/// Rounds down, to the largest `f32` that is not above this value.
fn round_down(exact: f64) -> f32 {
    let nearest = exact as f32;
    if f64::from(nearest) > exact {
        nearest.next_down()
    } else {
        nearest
    }
}

/// Rounds up, to the smallest `f32` that is not below this value.
fn round_up(exact: f64) -> f32 {
    -round_down(-exact)
}

/// Rounds towards zero.
fn round_to_zero(exact: f64) -> f32 {
    if exact > 0.0 {
        round_down(exact)
    } else {
        round_up(exact)
    }
}

/// Returns each expected result and its tolerance: 0 for operations that are exact to the bit.
fn singles(x: f32) -> [(f64, f64); 16] {
    let wide = f64::from(x);
    let approximately = |value: f64| (value, 1e-6 * value.abs().max(1.0));
    let exactly = |value: f32| (f64::from(value), 0.0);
    let positive = wide.abs() + 0.5;
    [
        approximately(wide.sin()),
        approximately(wide.cos()),
        approximately((wide * 0.1).exp()),
        approximately(positive.ln()),
        approximately(positive.powf(1.3)),
        approximately(1.0 / positive.sqrt()),
        approximately(wide.tanh()),
        exactly(x % 0.7),
        exactly(x.round_ties_even() + x.trunc() * 4.0 + x.floor() * 16.0),
        exactly(3.0_f32.copysign(x)),
        exactly(round_to_zero(wide + f64::from(1e-7_f32))),
        exactly(round_up(wide * f64::from(0.1_f32))),
        exactly(round_down(wide / 3.0)),
        exactly(round_up(wide.abs().sqrt())),
        exactly(x.clamp(0.0, 1.0)),
        exactly(x.min(2.0) + x.max(-2.0) + x.trunc()),
    ]
}

/// As [`singles`], for `f64`.
fn doubles(x: f64) -> [(f64, f64); 8] {
    let approximately = |value: f64| (value, 4e-15 * value.abs().max(1.0));
    let exactly = |value: f64| (value, 0.0);
    let positive = x.abs() + 0.5;
    // Rounded to nearest, while the kernel rounds towards zero: the results differ by at most one ulp.
    let fused = x.mul_add(0.1, 1.0);
    [
        approximately(x.sin()),
        approximately((x * 0.1).exp()),
        approximately(positive.ln()),
        exactly(x.abs().sqrt() / (x.abs() + 1.0)),
        exactly(x.round_ties_even() + x.floor() * 4.0),
        exactly(if x == 0.0 { 1e-17 } else { x.next_up() }),
        (fused, 2.5e-16 * fused.abs().max(1.0)),
        exactly(f64::from(x as f32) + x.trunc()),
    ]
}

/// Compares each output of each input with its expected value, within its tolerance.
fn check(name: &str, inputs: &[f64], outputs: &[f64], expect: impl Fn(f64) -> Vec<(f64, f64)>) {
    let mut inputs = inputs.iter();
    let outputs_per_input = expect(0.0).len();
    for outputs in outputs.chunks(outputs_per_input) {
        let x = *inputs.next().unwrap();
        for (index, (output, (expected, tolerance))) in outputs.iter().zip(expect(x)).enumerate() {
            assert!(
                (output - expected).abs() <= tolerance,
                "{name}, output {index} of {x}: expected {expected}, got {output}"
            );
        }
    }
}

fn polynomial(x: f32, terms: usize) -> f32 {
    let table = [1.0, 2.0, 4.0, 8.0];
    (0..terms).fold(0.0, |sum, term| x.mul_add(sum, table[term & 3]))
}

/// Runs all kernels of one compilation and compares their results.
fn probe(text: &str) {
    let input = words(2 * THREADS);
    let narrow: Vec<u32> = input
        .iter()
        .map(|word| (*word >> 7) as u32 | *word as u32)
        .collect();
    let got: Vec<u32> = run("integers", text, &narrow, 16 * THREADS);
    for (pair, got) in narrow.chunks(2).zip(got.chunks(16)) {
        assert_eq!(got, integers(pair[0], pair[1]), "integers of {pair:x?}");
    }
    let got: Vec<u64> = run("wide", text, &input, 8 * THREADS);
    for (pair, got) in input.chunks(2).zip(got.chunks(8)) {
        assert_eq!(got, wide(pair[0], pair[1]), "wide of {pair:x?}");
    }
    let input = numbers();
    let wider = |values: &[f32]| values.iter().copied().map(f64::from).collect::<Vec<_>>();
    let got: Vec<f32> = run("singles", text, &input, 16 * THREADS);
    check("singles", &wider(&input), &wider(&got), |x| {
        singles(x as f32).into()
    });
    let got: Vec<f64> = run("doubles", text, &wider(&input), 8 * THREADS);
    check("doubles", &wider(&input), &got, |x| doubles(x).into());
    let got: Vec<f32> = run("calls", text, &input, THREADS + 1);
    for (t, (x, got)) in input.iter().zip(&got).enumerate() {
        let expected = match t % 3 {
            0 => polynomial(*x, 5),
            _ => x * (t % 6 + 1) as f32 + polynomial(*x, 2),
        };
        assert!(
            (got - expected).abs() <= 1e-5 * expected.abs(),
            "calls, thread {t}: expected {expected}, got {got}"
        );
    }
    assert_eq!(got[THREADS], 5.0 + THREADS as f32);
    let input: Vec<u32> = words(THREADS)
        .iter()
        .map(|word| (word >> 40) as u32 % 900)
        .collect();
    let got: Vec<u32> = run("warps", text, &input, 8 * THREADS);
    for (t, got) in got.chunks(8).enumerate() {
        assert_eq!(got, warps(&input, t), "warps, thread {t}");
    }
}

fn warps(input: &[u32], t: usize) -> [u32; 8] {
    let (lane, first) = (t % 32, t / 32 * 32);
    let warp = &input[first..first + 32];
    let ballot = |holds: &dyn Fn(u32) -> bool| -> u32 {
        let lanes = warp.iter().enumerate().filter(|(_, word)| holds(**word));
        lanes.map(|(lane, _)| 1 << lane).sum()
    };
    let neighbour = match lane % 2 {
        0 => first + (lane ^ 2),
        _ => (first + (lane ^ 4)) * 3,
    };
    let seven = u32::from(warp.contains(&7));
    [
        input[..=t].iter().sum(),
        ballot(&|word| word & 1 == 1),
        ballot(&|word| word % 3 == input[t] % 3),
        warp.iter().copied().max().unwrap_or(0),
        input.iter().filter(|word| **word % 5 == 0).count() as u32,
        neighbour as u32,
        1 + 2 * seven,
        u32::MAX,
    ]
}

/// I6: runs the PTX of the repository.
#[test]
fn the_ptx_of_the_probe_computes_what_its_cuda_c_specifies_i6() {
    probe(include_str!("../kernels/probe.ptx"));
}

/// I6: runs the PTX that NVRTC prints for several targets, which differs in its instructions. The PTX of the repository
/// must be NVRTC's for the first target.
#[rstest]
#[case("compute_80")]
#[case("compute_90")]
#[case("compute_100")]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn the_ptx_of_every_target_computes_the_same_i6(#[case] target: &str) {
    let kernel = kernel::<u32, u32>("integers", "").cuda(include_str!("../kernels/probe.cu"));
    let text = millstream_cuda::ptx_for(&kernel, target).unwrap();
    if target == "compute_80" {
        assert!(
            text == include_str!("../kernels/probe.ptx"),
            "probe.ptx is out of date with probe.cu or this NVRTC"
        );
    }
    probe(&text);
}

/// The probe contains the less common instructions, so that the fake's interpreter is tested with them.
#[test]
fn the_probe_contains_the_less_common_ptx_instructions() {
    let text = include_str!("../kernels/probe.ptx");
    let opcode = |line: &str| {
        line.trim_start()
            .split(['.', ' ', '\t'])
            .next()
            .map(str::to_owned)
    };
    let opcodes: BTreeSet<String> = text.lines().filter_map(opcode).collect();
    for opcode in [
        "shfl", "vote", "match", "redux", "bar", "call", "prmt", "dp4a", "atom", "bfind", "clz",
        "brev",
    ] {
        assert!(
            opcodes.contains(opcode),
            "probe.ptx has no `{opcode}`, only {opcodes:?}"
        );
    }
}

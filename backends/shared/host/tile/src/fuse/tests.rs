//! Fused loops compared with the functions that they replace.

use millstream_ir::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp, scalar};

use super::{Fused, Node, PrefetchKind, Recipe, has_binary, has_unary};
use crate::kernels::reduce::{FEW, Reducer};
use crate::kernels::reducers::reducer;
use crate::level::{Fused as FusedArithmetic, Kernel, Level};
use crate::math;

/// Returns the levels of this processor that have machine code.
fn levels() -> impl Iterator<Item = Level> {
    let highest = Level::of_processor();
    [Level::V3, Level::V4]
        .into_iter()
        .filter(move |level| *level <= highest)
}

/// Returns numbers of every kind, more than two vectors but no multiple of one.
fn numbers(seed: u32) -> Vec<f32> {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MIN_POSITIVE,
        1e-40,
        f32::MAX,
        88.5,
        -88.5,
        -103.9,
        0.55,
        -0.549_999_95,
    ];
    let mut state = seed.wrapping_mul(2_654_435_769) | 1;
    let random = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / 65536.0 - 128.0
    });
    let at = seed as usize % special.len();
    let turned = special[at..].iter().chain(&special[..at]).copied();
    turned.chain(random).take(45).collect()
}

/// Runs a recipe over the first `n` lanes; its first slots are inputs, and its last is the output.
fn run(recipe: &Recipe, level: Level, inputs: &[Vec<f32>], n: usize) -> Vec<f32> {
    let fused = Fused::compile(recipe.clone(), level).expect("the loop compiles");
    let mut out = vec![7.5_f32; 48];
    let mut slots: Vec<*mut u8> = inputs
        .iter()
        .map(|input| input.as_ptr().cast_mut().cast())
        .collect();
    slots.push(out.as_mut_ptr().cast());
    // SAFETY: every slot has more elements than there are lanes; the output is a separate vector.
    unsafe { fused.run(&slots, n, false) };
    assert!(
        out[n..].iter().all(|x| *x == 7.5),
        "written beyond the last lane"
    );
    out.truncate(n);
    out
}

/// Returns `true` if both have the same bits, or both are NaN.
fn same(got: f32, expected: f32) -> bool {
    got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan())
}

fn unary(op: UnaryOp, x: f32) -> f32 {
    match op {
        UnaryOp::Neg => -x,
        UnaryOp::Abs => x.abs(),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Floor => x.floor(),
        UnaryOp::Ceil => x.ceil(),
        UnaryOp::Exp => math::f32::exp::<FusedArithmetic>(x),
        _ => math::f32::tanh::<FusedArithmetic>(x),
    }
}

fn binary(op: BinaryOp, a: f32, b: f32) -> f32 {
    let of = scalar::binary(op, DType::F32).expect("the operation exists for floats");
    f32::from_bits(of(a.to_bits().into(), b.to_bits().into()) as u32)
}

fn compare(op: CompareOp, a: f32, b: f32) -> bool {
    scalar::compare(op, DType::F32)(a.to_bits().into(), b.to_bits().into()) == 1
}

#[test]
fn unary_operations_are_bit_identical_for_any_number_of_lanes() {
    for level in levels() {
        for op in UnaryOp::ALL.iter().copied().filter(|op| has_unary(*op)) {
            for n in 0..=45 {
                let recipe = Recipe {
                    nodes: vec![Node::Lanes(0), Node::Unary(op, 0)],
                    outputs: vec![(1, 1)],
                    ..Recipe::default()
                };
                let inputs = [numbers(n)];
                let got = run(&recipe, level, &inputs, n as usize);
                for (got, x) in got.iter().zip(&inputs[0]) {
                    let expected = unary(op, *x);
                    assert!(
                        same(*got, expected),
                        "{level:?} {op} {x}: got {got}, expected {expected}"
                    );
                }
            }
        }
    }
}

#[test]
fn binary_operations_are_bit_identical_for_tiles_scalars_and_constants() {
    let kinds = |slot: u16, value: f32| [Node::Lanes(slot), Node::Scalar(slot), Node::Const(value)];
    for level in levels() {
        for op in BinaryOp::ALL.iter().copied().filter(|op| has_binary(*op)) {
            for seed in 0..15 {
                let inputs = [numbers(seed), numbers(seed * 7 + 3)];
                for a in kinds(0, inputs[0][0]) {
                    for b in kinds(1, inputs[1][0]) {
                        let recipe = Recipe {
                            nodes: vec![a, b, Node::Binary(op, 0, 1)],
                            outputs: vec![(2, 2)],
                            ..Recipe::default()
                        };
                        let got = run(&recipe, level, &inputs, 45);
                        let of = |node: Node, lane: usize, input: &[f32]| match node {
                            Node::Lanes(_) => input[lane],
                            _ => input[0],
                        };
                        for (lane, got) in got.iter().enumerate() {
                            let (x, y) = (of(a, lane, &inputs[0]), of(b, lane, &inputs[1]));
                            let expected = binary(op, x, y);
                            assert!(
                                same(*got, expected),
                                "{level:?} {op} of {a:?} {x} and {b:?} {y}: got {got}, expected {expected}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn comparisons_select_lanes() {
    for level in levels() {
        for op in CompareOp::ALL.iter().copied() {
            let inputs = [numbers(1), numbers(4), numbers(2)];
            for other in [Node::Lanes(2), Node::Const(-3.0)] {
                // Selects the first if the comparison is true, otherwise the other.
                let recipe = Recipe {
                    nodes: vec![
                        Node::Lanes(0),
                        Node::Lanes(1),
                        other,
                        Node::Compare(op, 0, 1),
                        Node::Select(3, 0, 2),
                    ],
                    outputs: vec![(4, 3)],
                    ..Recipe::default()
                };
                let got = run(&recipe, level, &inputs, 45);
                for (lane, got) in got.iter().enumerate() {
                    let (x, y) = (inputs[0][lane], inputs[1][lane]);
                    let other = match other {
                        Node::Const(value) => value,
                        _ => inputs[2][lane],
                    };
                    let expected = if compare(op, x, y) { x } else { other };
                    assert!(
                        same(*got, expected),
                        "{level:?} {x} {op} {y}: got {got}, expected {expected}"
                    );
                }
            }
        }
    }
}

/// Returns the result of a reduction that begins with one of its loops over these elements.
fn reduced(op: ReduceOp, level: Level, loop_of: fn(&Reducer) -> Kernel, from: &[f32]) -> f32 {
    let reducer = reducer(op, DType::F32, level).expect("the reduction exists");
    let (mut accumulator, mut result) = (reducer.neutral, 0_f32);
    let at = (&raw mut accumulator).cast::<u8>();
    // SAFETY: there is room for one accumulator of any type; the elements exist.
    unsafe {
        loop_of(&reducer)(at, from.as_ptr().cast(), at, at, from.len());
        (reducer.end)((&raw mut result).cast(), at, at, at, 1);
    }
    result
}

#[test]
fn folds_are_bit_identical_to_those_over_tiles() {
    let bodies: [&[Node]; 3] = [
        &[Node::Lanes(0)],
        &[Node::Lanes(0), Node::Unary(UnaryOp::Neg, 0)],
        &[Node::Lanes(0), Node::Unary(UnaryOp::Exp, 0)],
    ];
    let ops = [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max];
    let alone = ops.iter().map(std::slice::from_ref);
    let folds: Vec<&[ReduceOp]> = alone.chain([&ops[..]]).collect();
    for (level, ops) in levels().flat_map(|level| folds.iter().map(move |ops| (level, *ops))) {
        for body in bodies {
            let recipe = Recipe {
                nodes: body.to_vec(),
                folds: ops
                    .iter()
                    .zip(1..)
                    .map(|(op, slot)| (*op, body.len() as u16 - 1, slot))
                    .collect(),
                ..Recipe::default()
            };
            let Some(fused) = Fused::compile(recipe, level) else {
                assert!(
                    level != Level::V4 && ops.len() > 1,
                    "there are registers for one fold"
                );
                continue;
            };
            for n in (1..=45).chain([63, 64, 65, 128, 190, 450, 451]) {
                let special = numbers(n as u32);
                let plain = special
                    .iter()
                    .map(|x| if x.is_finite() { *x } else { -0.0 });
                let plain: Vec<f32> = plain.map(|x| x.clamp(-3.0, 3.0)).collect();
                for input in [plain, special] {
                    let mut input: Vec<f32> = input.iter().cycle().take(n).copied().collect();
                    let values: Vec<f32> = match body.last() {
                        Some(Node::Unary(op, _)) => input.iter().map(|x| unary(*op, *x)).collect(),
                        _ => input.clone(),
                    };
                    // Elements after the last lane must not be read.
                    input.resize(n + 16, 1e30);
                    let mut left = vec![[0_f32; FEW]; ops.len()];
                    let mut slots = vec![input.as_mut_ptr().cast()];
                    slots.extend(left.iter_mut().map(|left| left.as_mut_ptr().cast::<u8>()));
                    // SAFETY: there are as many elements as lanes, and room for the partial results.
                    unsafe { fused.run(&slots, n, false) };
                    for (op, left) in ops.iter().zip(&left) {
                        let (got, expected) = (
                            reduced(*op, level, |reducer| reducer.partials, left),
                            reduced(*op, level, |reducer| reducer.row, &values),
                        );
                        assert!(
                            same(got, expected),
                            "{level:?} {op} of {ops:?}, {n} lanes by {body:?}: got {got}, expected {expected}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn stored_values_and_several_folds_share_a_loop() {
    for level in levels().filter(|level| *level == Level::V4) {
        // x + 1 is stored, and both are folded.
        let recipe = Recipe {
            nodes: vec![
                Node::Lanes(0),
                Node::Const(1.0),
                Node::Binary(BinaryOp::Add, 0, 1),
            ],
            outputs: vec![(2, 1)],
            folds: vec![(ReduceOp::Max, 0, 2), (ReduceOp::Sum, 2, 3)],
            ..Recipe::default()
        };
        let fused = Fused::compile(recipe, level).expect("the loop compiles");
        for n in [1, 17, 64, 200] {
            let mut input: Vec<f32> = (0..n).map(|lane| lane as f32).collect();
            let mut out = vec![0_f32; n];
            let mut left = [[0_f32; FEW]; 2];
            let [most, sum] = left.each_mut().map(|left| left.as_mut_ptr().cast::<u8>());
            let slots = [
                input.as_mut_ptr().cast(),
                out.as_mut_ptr().cast(),
                most,
                sum,
            ];
            // SAFETY: there are as many elements as lanes, and room for the partial results.
            unsafe { fused.run(&slots, n, false) };
            let expected: Vec<f32> = input.iter().map(|x| x + 1.0).collect();
            assert_eq!(out, expected);
            let of = |op, left: &[f32]| reduced(op, level, |reducer| reducer.partials, left);
            assert_eq!(of(ReduceOp::Max, &left[0]), (n - 1) as f32);
            assert_eq!(of(ReduceOp::Sum, &left[1]), expected.iter().sum::<f32>());
        }
    }
}

#[test]
fn stored_values_can_be_used_further() {
    for level in levels() {
        // x + y, and the root of its square.
        let recipe = Recipe {
            nodes: vec![
                Node::Lanes(0),
                Node::Scalar(1),
                Node::Binary(BinaryOp::Add, 0, 1),
                Node::Binary(BinaryOp::Mul, 2, 2),
                Node::Unary(UnaryOp::Sqrt, 3),
            ],
            outputs: vec![(2, 2), (4, 3)],
            ..Recipe::default()
        };
        let fused = Fused::compile(recipe, level).expect("the loop compiles");
        let (x, y) = ([1.0_f32, -2.0, 3.0], 0.5_f32);
        let (mut sums, mut roots) = ([0_f32; 3], [0_f32; 3]);
        let slots = [
            x.as_ptr().cast_mut().cast(),
            (&raw const y).cast_mut().cast(),
            sums.as_mut_ptr().cast(),
            roots.as_mut_ptr().cast(),
        ];
        // SAFETY: three elements each, and one.
        unsafe { fused.run(&slots, 3, false) };
        assert_eq!(sums, [1.5, -1.5, 3.5]);
        assert_eq!(roots, [1.5, 1.5, 3.5]);
    }
}

#[test]
fn streaming_stores_write_the_same_values() {
    #[repr(align(64))]
    struct Lines([f32; 64]);
    for level in levels() {
        for n in [1, 15, 16, 17, 48, 63, 64] {
            let recipe = Recipe {
                nodes: vec![Node::Lanes(0), Node::Binary(BinaryOp::Add, 0, 0)],
                outputs: vec![(1, 1)],
                may_stream: true,
                ..Recipe::default()
            };
            let fused = Fused::compile(recipe, level).expect("the loop compiles");
            let input: Vec<f32> = (0..64).map(|lane| lane as f32).collect();
            for streams in [true, false] {
                let mut out = Lines([-1.0; 64]);
                let slots = [input.as_ptr().cast_mut().cast(), out.0.as_mut_ptr().cast()];
                // SAFETY: 64 elements each; the output begins at a cache line.
                unsafe { fused.run(&slots, n, streams) };
                super::fence();
                for (lane, got) in out.0.iter().enumerate() {
                    let expected = if lane < n { 2.0 * lane as f32 } else { -1.0 };
                    assert_eq!(*got, expected, "{level:?} {n} {streams}: lane {lane}");
                }
            }
        }
    }
}

#[test]
fn prefetched_addresses_may_be_invalid_and_change_nothing() {
    for level in levels() {
        let mut recipe = Recipe {
            nodes: vec![Node::Lanes(0), Node::Unary(UnaryOp::Exp, 0)],
            outputs: vec![(1, 1)],
            prefetched: vec![
                (PrefetchKind::Read, 2),
                (PrefetchKind::Write, 3),
                (PrefetchKind::Write, 0),
            ],
            ..Recipe::default()
        };
        let input = numbers(1);
        let mut outs = [[7.5_f32; 48]; 2];
        for out in &mut outs {
            let fused = Fused::compile(recipe.clone(), level).expect("the loop compiles");
            let mut slots = [std::ptr::dangling_mut(); 4];
            slots[..2]
                .copy_from_slice(&[input.as_ptr().cast_mut().cast(), out.as_mut_ptr().cast()]);
            // SAFETY: 45 elements exist and have room; prefetched addresses are not accessed.
            unsafe { fused.run(&slots, 45, false) };
            recipe.prefetched.clear();
        }
        let bits = outs.map(|out| out.map(f32::to_bits));
        assert_eq!(bits[0], bits[1], "{level:?}");
    }
}

#[test]
fn more_live_values_than_registers_do_not_compile() {
    for level in levels() {
        // All are read first, and summed from the last to the first, so all are live at once.
        let count = 40_u16;
        let mut nodes: Vec<Node> = (0..count).map(|_| Node::Lanes(0)).collect();
        nodes.extend((0..count).map(|of| Node::Unary(UnaryOp::Neg, of)));
        nodes.push(Node::Binary(BinaryOp::Add, 2 * count - 1, 2 * count - 2));
        for of in (count..2 * count - 2).rev() {
            let sum = nodes.len() as u16 - 1;
            nodes.push(Node::Binary(BinaryOp::Add, sum, of));
        }
        let outputs = vec![(nodes.len() as u16 - 1, 1)];
        let recipe = Recipe {
            nodes,
            outputs,
            ..Recipe::default()
        };
        assert!(Fused::compile(recipe, level).is_none());
    }
}

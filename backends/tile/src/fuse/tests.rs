//! Fused loops beside the functions that they stand for.

use millstream_ir::{BinaryOp, CompareOp, ReduceOp, UnaryOp};

use super::{Fused, Node, Recipe, has_binary, has_unary};
use crate::level::{Fused as FusedArithmetic, Level};
use crate::math;
use crate::number::Number;

/// The levels that there is code for here.
fn levels() -> impl Iterator<Item = Level> {
    let highest = Level::of_processor();
    [Level::V3, Level::V4]
        .into_iter()
        .filter(move |level| *level <= highest)
}

/// Numbers of every kind, more than two vectors of them and not a multiple.
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

/// Runs a recipe whose first slots are inputs and whose last is the output, over the first so many lanes.
fn run(recipe: &Recipe, level: Level, inputs: &[Vec<f32>], n: usize) -> Vec<f32> {
    let fused = Fused::compile(recipe.clone(), level).expect("few values, and memory to execute");
    let mut out = vec![7.5_f32; 48];
    let mut slots: Vec<*mut u8> = inputs
        .iter()
        .map(|input| input.as_ptr().cast_mut().cast())
        .collect();
    slots.push(out.as_mut_ptr().cast());
    // SAFETY: every slot has more elements than there are lanes; the output is a vector of its own.
    unsafe { fused.run(&slots, n, false) };
    assert!(
        out[n..].iter().all(|x| *x == 7.5),
        "written beyond the last lane"
    );
    out.truncate(n);
    out
}

/// The same to the bit, or both NaN.
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
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
        BinaryOp::Min => a.least(b),
        _ => a.greatest(b),
    }
}

fn compare(op: CompareOp, a: f32, b: f32) -> bool {
    match op {
        CompareOp::Eq => a == b,
        CompareOp::Ne => a != b,
        CompareOp::Lt => a < b,
        CompareOp::Le => a <= b,
        CompareOp::Gt => a > b,
        _ => a >= b,
    }
}

#[test]
fn each_function_of_one_value_is_the_same_to_the_bit_for_any_number_of_lanes() {
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
                        "{level:?} {op} {x}: {got}, not {expected}"
                    );
                }
            }
        }
    }
}

#[test]
fn each_function_of_two_values_is_the_same_to_the_bit_of_tiles_scalars_and_constants() {
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
                                "{level:?} {op} of {a:?} {x} and {b:?} {y}: {got}, not {expected}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn comparisons_select() {
    for level in levels() {
        for op in CompareOp::ALL.iter().copied() {
            let inputs = [numbers(1), numbers(4), numbers(2)];
            for other in [Node::Lanes(2), Node::Const(-3.0)] {
                // Where the first is so to the second: itself, else the other.
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
                        "{level:?} {x} {op} {y}: {got}, not {expected}"
                    );
                }
            }
        }
    }
}

#[test]
fn folds_leave_partial_results_of_all_lanes_and_of_no_others() {
    for level in levels() {
        for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max] {
            for n in 1..=45_usize {
                for has_nan in [false, true] {
                    // Whole numbers and few factors, so that no order rounds.
                    let mut input: Vec<f32> =
                        (0..48).map(|lane| (lane * 7 % 11) as f32 - 5.0).collect();
                    if op == ReduceOp::Prod {
                        input = input
                            .iter()
                            .map(|x| if *x > 3.0 { -2.0 } else { 1.0 })
                            .collect();
                    }
                    // What lies behind the last lane must not be seen.
                    input[n..].fill(1e30);
                    if has_nan {
                        input[n / 2] = f32::NAN;
                    }
                    let recipe = Recipe {
                        nodes: vec![Node::Lanes(0), Node::Unary(UnaryOp::Neg, 0)],
                        outputs: Vec::new(),
                        folds: vec![(op, 1, 1)],
                        ..Recipe::default()
                    };
                    let fused = Fused::compile(recipe, level).expect("few values");
                    let mut partial = [0_f32; super::PARTIALS as usize];
                    let slots = [
                        input.as_ptr().cast_mut().cast(),
                        partial.as_mut_ptr().cast(),
                    ];
                    // SAFETY: as many elements as lanes, and room for the partial results.
                    unsafe { fused.run(&slots, n, false) };
                    let both = |a: f32, b: f32| match op {
                        ReduceOp::Sum => a + b,
                        ReduceOp::Prod => a * b,
                        ReduceOp::Min => a.least(b),
                        _ => a.greatest(b),
                    };
                    let got = partial.into_iter().reduce(both).unwrap_or_default();
                    let expected = input[..n]
                        .iter()
                        .map(|x| -x)
                        .reduce(both)
                        .unwrap_or_default();
                    assert!(
                        same(got, expected),
                        "{level:?} {op} of {n}: {got}, not {expected}"
                    );
                }
            }
        }
    }
}

#[test]
fn several_values_are_written_and_used_on() {
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
        let fused = Fused::compile(recipe, level).expect("few values");
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
fn what_is_streamed_is_what_is_written() {
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
            let fused = Fused::compile(recipe, level).expect("few values");
            let input: Vec<f32> = (0..64).map(|lane| lane as f32).collect();
            for streams in [true, false] {
                let mut out = Lines([-1.0; 64]);
                let slots = [input.as_ptr().cast_mut().cast(), out.0.as_mut_ptr().cast()];
                // SAFETY: 64 elements each; what is written begins at a line.
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
fn more_values_than_registers_are_refused() {
    for level in levels() {
        // All are read, and then summed from the last to the first.
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

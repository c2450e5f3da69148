//! Fused loops compared with the functions that they replace.

use millstream_ir::{BinaryOp, DType, ReduceOp, UnaryOp, scalar};

use super::{Fused, Node, NodeId, PrefetchKind, Recipe, has_binary, has_unary};
use crate::kernels::reduce::{FEW, Reducer};
use crate::kernels::reducer;
use crate::slot::SlotId;
use crate::tests::random;
use millstream_loops::level::{Fused as FusedArithmetic, Kernel, Level};
use millstream_loops::math;

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

/// Returns a random recipe of the tiles 0 and 1, the scalar 2, and a constant. Its values are stored in the slots 3 and
/// 4, and folded into those from 5.
fn random_recipe(state: &mut u64) -> Recipe {
    let mut below = |count: usize| random(state) as usize % count;
    let unary = UnaryOp::ALL.iter().copied().filter(|op| has_unary(*op));
    let binary = BinaryOp::ALL.iter().copied().filter(|op| has_binary(*op));
    let (unary, binary): (Vec<UnaryOp>, Vec<BinaryOp>) = (unary.collect(), binary.collect());
    let reductions = [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max];
    let constant = Node::Const(numbers(below(15) as u32)[0]);
    let mut nodes = vec![Node::Lanes(0), Node::Lanes(1), Node::Scalar(2), constant];
    // Values that are computed for each lane.
    let mut lanes: Vec<NodeId> = vec![0, 1];
    for _ in 0..=below(6) {
        let id = nodes.len() as NodeId;
        let [a, b] = [(); 2].map(|()| match below(4) {
            0 => 2 + below(2) as NodeId,
            _ => lanes[below(lanes.len())],
        });
        lanes.push(id);
        nodes.push(match below(3) {
            0 => Node::Unary(unary[below(unary.len())], a),
            _ => Node::Binary(binary[below(binary.len())], a, b),
        });
    }
    let (outputs, folds) = (below(3), [0, 0, 0, 1, 1, 2, 3, 4][below(8)]);
    let mut any = || lanes[below(lanes.len())];
    let outputs = (0..outputs).map(|index| (any(), 3 + index as SlotId));
    let outputs = outputs.collect();
    let fold = |index: usize| (reductions[index], any(), 5 + index as SlotId);
    Recipe {
        nodes,
        outputs,
        folds: (0..folds).map(fold).collect(),
        may_stream: folds == 0,
        ..Recipe::default()
    }
}

/// Returns the values of all nodes in one lane, by the functions that the loop replaces.
fn lane_of(recipe: &Recipe, inputs: &[Vec<f32>], lane: usize) -> Vec<f32> {
    let mut values: Vec<f32> = Vec::new();
    for node in &recipe.nodes {
        let of = |id: NodeId| values[usize::from(id)];
        let value = match *node {
            Node::Lanes(slot) => inputs[usize::from(slot)][lane],
            Node::Scalar(slot) => inputs[usize::from(slot)][0],
            Node::Const(value) => value,
            Node::Unary(op, a) => unary(op, of(a)),
            Node::Binary(op, a, b) => binary(op, of(a), of(b)),
            Node::Unused => 0.0,
        };
        values.push(value);
    }
    values
}

#[test]
fn random_loops_are_bit_identical_to_operations_and_folds_over_tiles() {
    const ROOM: usize = 512;
    #[repr(align(64))]
    struct Lines([f32; ROOM]);
    let lengths = || (0..=45).chain([63, 64, 65, 128, 190, 450, 451]);
    let (mut all, mut compiled) = (0, 0);
    for (level, seed) in levels().flat_map(|level| (0..2000_u64).map(move |seed| (level, seed))) {
        let state = &mut seed.clone();
        let recipe = random_recipe(state);
        all += 1;
        // There may be too few registers.
        let Some(fused) = Fused::compile(recipe.clone(), level) else {
            continue;
        };
        compiled += 1;
        let n = lengths().nth(random(state) as usize % lengths().count());
        let n = n.expect("it is one of them");
        let mut inputs = [(); 3].map(|()| {
            let plain = |x: f32| {
                if x.is_finite() {
                    x.clamp(-3.0, 3.0)
                } else {
                    -0.0
                }
            };
            let numbers = numbers(random(state) as u32).into_iter();
            let numbers = numbers.map(|x| if seed % 2 == 0 { plain(x) } else { x });
            let mut numbers: Vec<f32> = numbers.cycle().take(n.max(1)).collect();
            // Elements after the last lane must not be used.
            numbers.resize(n.max(1) + 16, 1e30);
            numbers
        });
        let mut outs = [(); 2].map(|()| Lines([7.5; ROOM]));
        let mut partials = [[0_f32; FEW]; 4];
        let slots = inputs
            .iter_mut()
            .map(|input| input.as_mut_ptr().cast::<u8>());
        let slots = slots.chain(outs.iter_mut().map(|out| out.0.as_mut_ptr().cast()));
        let slots = slots.chain(partials.iter_mut().map(|left| left.as_mut_ptr().cast()));
        let slots: Vec<*mut u8> = slots.collect();
        // SAFETY: there are as many elements as lanes, and room for the results; outputs begin at a cache line.
        unsafe { fused.run(&slots, n, random(state).is_multiple_of(2)) };
        super::fence();
        let lanes: Vec<Vec<f32>> = (0..n).map(|lane| lane_of(&recipe, &inputs, lane)).collect();
        let column = |node: NodeId| lanes.iter().map(move |lane| lane[usize::from(node)]);
        for ((node, _), out) in recipe.outputs.iter().zip(&outs) {
            let expected = column(*node).chain(std::iter::repeat(7.5));
            for (lane, (got, expected)) in out.0.iter().zip(expected).enumerate() {
                assert!(
                    same(*got, expected),
                    "{level:?} {recipe:?}: node {node} of lane {lane} of {n} is {got}, expected {expected}"
                );
            }
        }
        for ((op, node, _), partials) in recipe.folds.iter().zip(&partials) {
            let row: Vec<f32> = column(*node).collect();
            let got = reduced(*op, level, |reducer| reducer.partials, partials);
            let expected = reduced(*op, level, |reducer| reducer.row, &row);
            assert!(
                same(got, expected),
                "{level:?} {recipe:?}: {op} of node {node}, {n} lanes, is {got}, expected {expected}"
            );
        }
    }
    assert!(
        compiled > all / 2,
        "{compiled} of {all} have registers enough"
    );
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

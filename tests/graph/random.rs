//! Random graphs: views, broadcasts, reductions, products, sets and special numbers, compared with plain computations.

use millstream::DType;
use millstream::graph::Parts;
use millstream::ir::scalar::{self, Number};
use millstream::ir::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use proptest::prelude::*;

use super::expected::{Expected, TestGraph};
use super::support::On;
use super::{ONE, RANDOM_GRAPHS};

/// One step of a random expression: its kind, and its operands among earlier values.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    what: u8,
    first: usize,
    second: usize,
    number: usize,
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0_u8..15, 0_usize..100, 0_usize..100, 0_usize..1000);
    let step = step.prop_map(|(what, first, second, number)| Step {
        what,
        first,
        second,
        number,
    });
    prop::collection::vec(step, 1..14)
}

/// Returns the operations with a slope of at most 2, or with integer results: they do not amplify rounding errors.
fn gentle() -> Vec<UnaryOp> {
    let is_gentle = |op: &UnaryOp| {
        let Some(of) = scalar::unary(*op, DType::F64) else {
            return false;
        };
        let of = |x: f64| f64::from_bits(of(x.to_bits()));
        let step = 1.0 / 64.0;
        (-500..500).map(|at| f64::from(at) * step).all(|x| {
            let moved = (of(x + step) - of(x)).abs();
            moved <= 2.0 * step || of(x).fract() == 0.0
        })
    };
    UnaryOp::ALL.iter().copied().filter(is_gentle).collect()
}

const BINARY: [BinaryOp; 5] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Max,
    BinaryOp::Min,
];

const REDUCE: [ReduceOp; 6] = [
    ReduceOp::Sum,
    ReduceOp::Max,
    ReduceOp::Min,
    ReduceOp::Prod,
    ReduceOp::ArgMax,
    ReduceOp::ArgMin,
];

/// The number of values that are inputs.
const INPUTS: usize = 5;

/// Returns the value of a step, if the step is valid.
fn apply(step: &Step, values: &[Expected]) -> Option<Expected> {
    let a = &values[step.first % values.len()];
    let b = &values[step.second % values.len()];
    let (shape, rank, number) = (&a.want.shape, a.want.shape.len(), step.number);
    let fits = |x: &[usize], y: &[usize]| {
        let (x, y) = (x.iter().rev(), y.iter().rev());
        x.zip(y).all(|(x, y)| x == y || *x == 1 || *y == 1)
    };
    Some(match step.what {
        0 | 1 => {
            let all = gentle();
            a.unary(all[number % all.len()])
        }
        2..=4 if fits(shape, &b.want.shape) => a.binary(BINARY[number % BINARY.len()], b),
        5 if rank > 0 => {
            let (op, axes) = (REDUCE[number % REDUCE.len()], [number / 8 % rank]);
            let is_index = matches!(op, ReduceOp::ArgMax | ReduceOp::ArgMin);
            match op {
                // Of two values that differ only by rounding, either index may be found, so only inputs are reduced to
                // indices.
                _ if is_index && step.first % values.len() >= INPUTS => return None,
                _ if is_index => a.reduce(op, &axes).cast(DType::F64),
                op => a.reduce(op, &axes),
            }
        }
        6 if rank > 1 => a.reduce(ReduceOp::Sum, &[0, rank - 1]),
        7 if rank > 1 => {
            let mut axes: Vec<usize> = (0..rank).collect();
            axes.rotate_left(1 + number % (rank - 1));
            a.permute(&axes)
        }
        8 if rank > 0 => {
            let axis = number % rank;
            let len = 1 + number / 7 % shape[axis];
            a.narrow(axis, number / 3 % (shape[axis] - len + 1), len)
        }
        9 if rank > 0 => {
            let flat: usize = shape.iter().product();
            let cut = (1..=flat).filter(|cut| flat.is_multiple_of(*cut));
            let cuts: Vec<usize> = cut.collect();
            let cut = cuts[number % cuts.len()];
            a.reshape(&[cut, flat / cut])
        }
        10 if rank == 2 && b.want.shape.len() == 2 && shape[1] == b.want.shape[0] => a.matmul(b),
        11 if rank > 0 && shape == &b.want.shape => Expected::cat(&[a, b], number % rank),
        12 if shape == &b.want.shape => a.compare(CompareOp::Lt, b).select(b, a),
        13 if rank > 0 => {
            let top = a.reduce(ReduceOp::Max, &[rank - 1]);
            a.binary(BinaryOp::Sub, &top).unary(UnaryOp::Exp)
        }
        // Do not store into inputs: runs share them.
        14 if step.first % values.len() >= INPUTS && rank > 0 && shape == &b.want.shape => {
            let axis = number % rank;
            let len = 1 + number / 7 % shape[axis];
            let start = number / 3 % (shape[axis] - len + 1);
            a.set_rows(axis, start, &b.narrow(axis, start, len))
        }
        _ => return None,
    })
}

pub(crate) fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        12 => -4.0_f64..4.0,
        1 => Just(0.0),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(f64::NEG_INFINITY),
    ]
}

/// Returns `true` if all numbers are small enough that rounding errors do not matter.
fn is_tame(both: &Expected) -> bool {
    both.want
        .data
        .iter()
        .all(|num| !num.float().is_finite() || num.float().abs() < 1e4)
}

/// Returns a random graph, and its last few values as roots: some of them are used in several places.
fn random_graph(numbers: &[f64], steps: &[Step]) -> (TestGraph, Vec<Expected>) {
    let mut test = TestGraph::default();
    let mut next = numbers.iter().cycle();
    let mut input = |shape: &[usize]| {
        let count = shape.iter().product();
        let data = next
            .by_ref()
            .take(count)
            .map(|n| Number::Float(*n))
            .collect();
        test.input(DType::F64, shape, data)
    };
    let mut values = vec![
        input(&[4, 6]),
        input(&[6]),
        input(&[6, 4]),
        input(&[2, 3, 4]),
        input(&[23]),
    ];
    for step in steps {
        if let Some(made) = apply(step, &values)
            && is_tame(&made)
        {
            values.push(made);
        }
    }
    let roots = values.iter().rev().take(3).cloned().collect();
    (test, roots)
}

/// Checks a random graph. Rows of three elements count as long, and are split into at most `most` parts.
pub(crate) fn check(on: On, numbers: &[f64], steps: &[Step], most: u16) {
    let (mut test, roots) = random_graph(numbers, steps);
    let parts = Parts::default().of_rows_beyond(2).of_at_least(1);
    test.parts = parts.at_most(most);
    test.check(&on.open().client(), &roots.iter().collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: RANDOM_GRAPHS, ..ProptestConfig::default() })]

    #[test]
    fn random_graphs_have_the_expected_values(
        numbers in prop::collection::vec(number(), 8..90), steps in steps(), most in 0_u16..10,
    ) {
        check(ONE, &numbers, &steps, most);
    }
}

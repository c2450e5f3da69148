//! Random graphs: views, broadcasts, reductions, products, sets and odd numbers, against the same said plainly.

use millstream::DType;
use millstream::ir::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use proptest::prelude::*;

use crate::both::{Both, Sheet};
use crate::oracle::Num;
use crate::support::On;

/// One step of a random expression: what it is, and which earlier values it takes.
#[derive(Clone, Debug)]
struct Step {
    what: u8,
    first: usize,
    second: usize,
    number: usize,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0_u8..14, 0_usize..100, 0_usize..100, 0_usize..1000);
    let step = step.prop_map(|(what, first, second, number)| Step {
        what,
        first,
        second,
        number,
    });
    prop::collection::vec(step, 1..14)
}

const UNARY: [UnaryOp; 6] = [
    UnaryOp::Neg,
    UnaryOp::Abs,
    UnaryOp::Tanh,
    UnaryOp::Sin,
    UnaryOp::Floor,
    UnaryOp::Erf,
];
const BINARY: [BinaryOp; 5] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Max,
    BinaryOp::Min,
];

/// The value that a step makes, if it can be.
fn apply(step: &Step, values: &[Both]) -> Option<Both> {
    let a = &values[step.first % values.len()];
    let b = &values[step.second % values.len()];
    let (shape, rank, number) = (&a.want.shape, a.want.shape.len(), step.number);
    let fits = |x: &[usize], y: &[usize]| {
        let (x, y) = (x.iter().rev(), y.iter().rev());
        x.zip(y).all(|(x, y)| x == y || *x == 1 || *y == 1)
    };
    Some(match step.what {
        0 | 1 => a.unary(UNARY[number % UNARY.len()]),
        2..=4 if fits(shape, &b.want.shape) => a.binary(BINARY[number % BINARY.len()], b),
        5 if rank > 0 => {
            let ops = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min];
            a.reduce(ops[number % 3], &[number / 3 % rank])
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
        11 if rank > 0 && shape == &b.want.shape => Both::cat(&[a, b], number % rank),
        12 if shape == &b.want.shape => a.compare(CompareOp::Lt, b).select(b, a),
        13 if rank > 0 => {
            let top = a.reduce(ReduceOp::Max, &[rank - 1]);
            a.binary(BinaryOp::Sub, &top).unary(UnaryOp::Exp)
        }
        _ => return None,
    })
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        12 => -4.0_f64..4.0,
        1 => Just(0.0),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(f64::NEG_INFINITY),
    ]
}

/// Is every number small enough that its rounding does not show?
fn is_tame(both: &Both) -> bool {
    both.want
        .data
        .iter()
        .all(|num| !num.float().is_finite() || num.float().abs() < 1e4)
}

fn check(on: On, numbers: &[f64], steps: &[Step]) {
    let rig = on.open();
    let mut sheet = Sheet::default();
    let mut next = numbers.iter().cycle();
    let mut input = |shape: &[usize]| {
        let count = shape.iter().product();
        let data = next.by_ref().take(count).map(|n| Num::F(*n)).collect();
        sheet.input(DType::F64, shape, data)
    };
    let mut values = vec![
        input(&[4, 6]),
        input(&[6]),
        input(&[6, 4]),
        input(&[2, 3, 4]),
    ];
    for step in steps {
        if let Some(made) = apply(step, &values)
            && is_tame(&made)
        {
            values.push(made);
        }
    }
    // The last few, so that values that are used in several places are roots as well.
    let roots: Vec<&Both> = values.iter().rev().take(3).collect();
    sheet.check(&rig.client(), &roots);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn random_graphs_are_what_they_say_on_the_cpu(
        numbers in prop::collection::vec(number(), 8..90), steps in steps(),
    ) {
        check(On::Cpu, &numbers, &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn random_graphs_are_what_they_say_on_the_simulator(
        numbers in prop::collection::vec(number(), 8..90), steps in steps(),
    ) {
        check(On::Sim, &numbers, &steps);
    }
}

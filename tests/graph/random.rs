//! Random graphs: views, broadcasts, reductions, products, sets and odd numbers, against the same said plainly.

use millstream::DType;
use millstream::graph::{LazyBuffer, Parts, Schedule};
use millstream::ir::scalar::{self, Number};
use millstream::ir::{BinaryOp, CompareOp, ReduceOp, UnaryOp};
use proptest::prelude::*;

use crate::both::{Both, Sheet, assert_same};
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
    let step = (0_u8..15, 0_usize..100, 0_usize..100, 0_usize..1000);
    let step = step.prop_map(|(what, first, second, number)| Step {
        what,
        first,
        second,
        number,
    });
    prop::collection::vec(step, 1..14)
}

/// Operations whose results move little when a value does, by at most twice as much, or are whole: rounding does not grow by them.
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

/// How many of the values are inputs.
const INPUTS: usize = 5;

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
        0 | 1 => {
            let all = gentle();
            a.unary(all[number % all.len()])
        }
        2..=4 if fits(shape, &b.want.shape) => a.binary(BINARY[number % BINARY.len()], b),
        5 if rank > 0 => {
            let (op, axes) = (REDUCE[number % REDUCE.len()], [number / 8 % rank]);
            let is_index = matches!(op, ReduceOp::ArgMax | ReduceOp::ArgMin);
            match op {
                // Of two that are equal but for their rounding, either may be found: of inputs alone.
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
        11 if rank > 0 && shape == &b.want.shape => Both::cat(&[a, b], number % rank),
        12 if shape == &b.want.shape => a.compare(CompareOp::Lt, b).select(b, a),
        13 if rank > 0 => {
            let top = a.reduce(ReduceOp::Max, &[rank - 1]);
            a.binary(BinaryOp::Sub, &top).unary(UnaryOp::Exp)
        }
        // Inputs stay what they are: runs share them.
        14 if step.first % values.len() >= INPUTS && rank > 0 && shape == &b.want.shape => {
            let axis = number % rank;
            let len = 1 + number / 7 % shape[axis];
            let start = number / 3 % (shape[axis] - len + 1);
            a.set_rows(axis, start, &b.narrow(axis, start, len))
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

/// The sheet of a random graph, and its last few values: those that are used in several places are roots as well.
fn sheet(numbers: &[f64], steps: &[Step]) -> (Sheet, Vec<Both>) {
    let mut sheet = Sheet::default();
    let mut next = numbers.iter().cycle();
    let mut input = |shape: &[usize]| {
        let count = shape.iter().product();
        let data = next
            .by_ref()
            .take(count)
            .map(|n| Number::Float(*n))
            .collect();
        sheet.input(DType::F64, shape, data)
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
    (sheet, roots)
}

/// Rows of three elements are long here, and cut in at most so many parts.
fn check(on: On, numbers: &[f64], steps: &[Step], most: u16) {
    let (mut sheet, roots) = sheet(numbers, steps);
    let parts = Parts::default().of_rows_beyond(2).of_at_least(1);
    sheet.parts = parts.at_most(most);
    sheet.check(&on.open().client(), &roots.iter().collect::<Vec<_>>());
}

/// The same where those inputs are held whose bits are set: as if they were not.
fn check_holding(on: On, numbers: &[f64], steps: &[Step], bits: u8) {
    let (sheet, roots) = sheet(numbers, steps);
    let lazy: Vec<&LazyBuffer> = roots.iter().map(|root| &root.lazy).collect();
    let known = Schedule::create(&lazy).expect("the roots are right");
    let is_held =
        |(index, input): &(usize, &Both)| bits & (1 << index) != 0 && known.takes(&input.lazy);
    let inputs = sheet.inputs.iter().enumerate();
    let held: Vec<&Both> = inputs.filter(is_held).map(|(_, input)| input).collect();
    let roots: Vec<&Both> = roots.iter().collect();
    let Some(got) = sheet.run_holding(&on.open().client(), &roots, &held) else {
        return;
    };
    for (index, (got, root)) in got.iter().zip(&roots).enumerate() {
        assert_same(got, &root.want, &format!("root {index}, {bits:#b} held"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn random_graphs_are_what_they_say_on_the_cpu(
        numbers in prop::collection::vec(number(), 8..90), steps in steps(), most in 0_u16..10,
    ) {
        check(On::Cpu, &numbers, &steps, most);
    }

    #[test]
    fn random_graphs_are_the_same_whatever_of_them_is_held(
        numbers in prop::collection::vec(number(), 8..90), steps in steps(), held in 0_u8..32,
    ) {
        check_holding(On::Cpu, &numbers, &steps, held);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn random_graphs_are_what_they_say_on_the_simulator(
        numbers in prop::collection::vec(number(), 8..90), steps in steps(), most in 0_u16..10,
    ) {
        check(On::Sim, &numbers, &steps, most);
    }

    #[test]
    fn random_graphs_are_the_same_whatever_of_them_is_held_on_the_simulator(
        numbers in prop::collection::vec(number(), 8..90), steps in steps(), held in 0_u8..32,
    ) {
        check_holding(On::Sim, &numbers, &steps, held);
    }
}

// Compiling takes long, so there are few: what is looked at is how their tasks are ordered.
proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "needs NVRTC: run `cargo xtask gpu`"]
    fn random_graphs_are_what_they_say_on_a_gpu(
        numbers in prop::collection::vec(number(), 8..90), steps in steps(), held in 0_u8..32, most in 0_u16..10,
    ) {
        check(On::Cuda, &numbers, &steps, most);
        check_holding(On::Cuda, &numbers, &steps, held);
    }
}

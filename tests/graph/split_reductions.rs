//! Reductions of few long rows in two stages: parts of the rows, and then the results of the parts.

use millstream::graph::{Graph, LazyBuffer, Parts, Schedule};
use millstream::ir::scalar::Number;
use millstream::ir::{BinaryOp, ReduceOp, UnaryOp};
use millstream::{Cpu, DType, Device};
use rstest::rstest;
use rstest_reuse::apply;

use super::every_device;
use super::expected::{Expected, TestGraph};
use super::support::On;

/// Splits short rows too, so that tests are fast: parts of at least 8 elements.
fn short() -> Parts {
    let parts = Parts::default().of_rows_beyond(64);
    parts.of_at_least(8).at_most(64)
}

fn items(roots: &[&LazyBuffer], parts: Parts) -> usize {
    let schedule = Schedule::create_split(roots, parts).unwrap();
    schedule.items().len()
}

#[test]
fn reduction_of_a_long_row_is_two_items() {
    let graph = Graph::new();
    let count = |root: &LazyBuffer| items(&[root], Parts::default());
    let x = graph.input("x", DType::F32, [1 << 20]);
    // Operands are fused with the first stage, readers with the second.
    assert_eq!(count(&x.sum(0)), 2);
    assert_eq!(count(&((&x + 1.0).exp().mean(0) * 2.0).sqrt()), 2);
    assert_eq!(count(&x.max(0)), 2);
    assert_eq!(items(&[&x.max(0)], Parts::never()), 1);
    assert_eq!(count(&x.narrow(0, 7, 999_983).product(0)), 2);
    // The remainder behind equal parts is computed with them.
    let prime = x.narrow(0, 0, 999_983).exp();
    assert_eq!(count(&prime.sum(0)), 2);
    // The maximum and its index for each part, and the first of the best.
    assert_eq!(count(&(x.argmax(0) + 1)), 2);
    let square = graph.input("square", DType::F32, [1024, 1024]);
    let powers = square.permute([1, 0]).exp();
    assert_eq!(count(&powers.sum(..)), 2);
    assert_eq!(count(&powers.reshape([1 << 20]).sum(0)), 2);
    assert_eq!(count(&square.reshape([1 << 18, 4]).sum(0)), 2);
}

#[test]
fn reduction_of_the_columns_of_a_long_table_is_two_items() {
    let graph = Graph::new();
    let count = |root: &LazyBuffer| items(&[root], Parts::default());
    let table = graph.input("table", DType::F32, [20_000, 100]);
    assert_eq!(count(&table.sum(0)), 2);
    assert_eq!(count(&(table.exp().max(0) + 1.0)), 2);
    assert_eq!(count(&table.sum(1)), 1, "20,000 rows are enough");
    let wide = graph.input("wide", DType::F32, [2_000, 100]);
    assert_eq!(count(&wide.sum(0)), 1, "the columns are short");
    // A middle axis: there are as many tables as the slowest axis is long.
    let middles = |tables| {
        let all = graph.input("tables", DType::F32, [tables, 9_000, 64]);
        count(&all.sum(1))
    };
    assert_eq!([middles(1), middles(15), middles(16)], [2, 2, 1]);
}

#[test]
fn reduction_of_many_short_or_symbolic_rows_is_one_item() {
    let graph = Graph::new();
    let t = graph.length("t", 1 << 20);
    let x = graph.input("x", DType::F32, [1 << 20]);
    for row in [
        x.reshape([16, 1 << 16]).sum(1),
        x.narrow(0, 0, 1 << 16).sum(0),
        x.narrow(0, 0, &t).sum(0),
        graph.input("none", DType::F32, [0, 1 << 20]).sum(1),
    ] {
        assert_eq!(items(&[&row], Parts::default()), 1);
    }
    // Few rows, of unknown number.
    let s = graph.length("s", 8);
    let rows = x.reshape([8, 1 << 17]).narrow(0, 0, &s);
    assert_eq!(items(&[&rows.sum(1)], Parts::default()), 2);
}

#[test]
fn split_reductions_of_one_input_share_the_pass_over_its_parts() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [1 << 20]);
    assert_eq!(items(&[&x.sum(0), &x.max(0)], Parts::default()), 3);
    assert_eq!(items(&[&x.sum(0), &x.sum(0)], Parts::default()), 3);
    let sum = x.sum(0);
    assert_eq!(items(&[&sum, &sum], Parts::default()), 2);
    // Maximum, powers, their sum, and the quotients.
    assert_eq!(items(&[&x.softmax(0)], Parts::default()), 6);
}

#[test]
fn parts_are_in_texts_and_count_as_temporaries() {
    let device = Device::open(Cpu::default()).unwrap();
    let graph = Graph::new();
    let x = graph.input("x", DType::F16, [1 << 24]);
    let schedule = Schedule::create_one(&x.sum(0)).unwrap();
    let text = schedule.to_string();
    // Sums of halves are stored in the type of computation.
    assert!(text.contains("t0 f32 [1024, 1]  (x, t0)"), "{text}");
    assert!(text.contains("t1 f16 [1]  (t0, t1)"), "{text}");
    assert!(schedule.dot().contains("i0 -> i1 [label=\"t0\"]"));
    let compiled = schedule.compile(&device.new_client()).unwrap();
    assert_eq!(compiled.tasks(), 2);
    assert_eq!(compiled.temporary_bytes(), 4096);
}

const OPS: [ReduceOp; 6] = [
    ReduceOp::Sum,
    ReduceOp::Prod,
    ReduceOp::Max,
    ReduceOp::Min,
    ReduceOp::ArgMax,
    ReduceOp::ArgMin,
];

/// Adds numbers whose product, of hundreds, is neither zero nor out of range, but wraps for integers.
fn factors(test: &mut TestGraph, dtype: DType, shape: &[usize]) -> Expected {
    let number = |index: usize| match (dtype.is_float(), index % 19) {
        (true, 0) => Number::Float(2.0),
        (true, 9) => Number::Float(-0.5),
        (true, _) => Number::Float(1.0),
        (false, rest) => Number::Whole((rest % 7 * 2 + 1) as i128),
    };
    let data = (0..shape.iter().product()).map(number).collect();
    test.input(dtype, shape, data)
}

/// Checks every reduction of one type: one and several rows, of lengths with and without a divisor.
pub(crate) fn every_reduction(on: On, dtype: DType) {
    let rig = on.open();
    let mut test = TestGraph {
        parts: short(),
        ..TestGraph::default()
    };
    let mut roots = Vec::new();
    // There are two kernels for each.
    let lengths: &[_] = match super::compiles_slowly(on) {
        true => &[(2, 131)],
        false => &[(1, 509), (1, 512), (2, 131), (15, 67)],
    };
    for &(rows, len) in lengths {
        for op in OPS {
            if !op.takes(dtype.computed()) {
                continue;
            }
            let input = |test: &mut TestGraph, shape: &[usize]| match op {
                ReduceOp::Prod => factors(test, dtype, shape),
                _ => test.numbers(dtype, shape),
            };
            roots.push(input(&mut test, &[rows, len]).reduce(op, &[1]));
            // Adjacent rows count as one, which is long beyond eight times as many elements.
            let tall = match rows {
                1 => len,
                _ => len.max(8 * 64 / rows + 1),
            };
            roots.push(input(&mut test, &[tall, rows]).reduce(op, &[0]));
        }
    }
    let lazy: Vec<&LazyBuffer> = roots.iter().map(|root| &root.lazy).collect();
    assert!(
        items(&lazy, short()) >= 2 * roots.len(),
        "all reductions are split"
    );
    test.check(&rig.client(), &roots);
}

#[apply(every_device)]
fn split_reductions_of_f32_equal_whole_ones(on: On) {
    every_reduction(on, DType::F32);
}

/// Rows over several axes, with views, fused operands and fused readers.
#[apply(every_device)]
fn split_reductions_of_expressions_equal_whole_ones(on: On) {
    let rig = on.open();
    let mut test = TestGraph {
        parts: short(),
        ..TestGraph::default()
    };
    let a = test.floats(DType::F32, &[13, 3, 41]);
    let b = test.floats(DType::F32, &[41]);
    let fed = a.binary(BinaryOp::Mul, &b).unary(UnaryOp::Abs);
    let mut roots = Vec::new();
    for op in [ReduceOp::Sum, ReduceOp::Max, ReduceOp::ArgMin] {
        roots.push(fed.reduce(op, &[0, 1, 2]));
        roots.push(fed.reduce(op, &[0, 2]));
        roots.push(fed.permute(&[2, 1, 0]).reduce(op, &[0, 2]));
        roots.push(fed.narrow(2, 1, 37).reduce(op, &[0, 2]));
        // Rows of a reshaped buffer.
        roots.push(fed.reshape(&[13 * 3 * 41]).reduce(op, &[0]));
        roots.push(fed.reshape(&[13, 123]).reduce(op, &[1]));
        roots.push(fed.reshape(&[39, 41]).reduce(op, &[0]));
        roots.push(
            fed.permute(&[1, 0, 2])
                .reshape(&[3, 41, 13])
                .reduce(op, &[1, 2]),
        );
        roots.push(fed.reshape(&[41, 39]).reduce(op, &[0]));
    }
    let sum = fed.reduce(ReduceOp::Sum, &[0, 1, 2]);
    // Readers, one of them over as many elements as there are parts.
    roots.push(sum.unary(UnaryOp::Sqrt).binary(BinaryOp::Add, &sum));
    roots.push(a.binary(BinaryOp::Div, &sum));
    roots.push(b.binary(BinaryOp::Mul, &sum));
    let lines = test.floats(DType::F32, &[64, 10]);
    let whole = lines.reduce(ReduceOp::Sum, &[0, 1]);
    let first = lines.narrow(1, 0, 1);
    roots.push(first.binary(BinaryOp::Sub, &whole));
    // A prime length with an axis behind it, and one without.
    let tall = test.floats(DType::F32, &[1031, 3]).unary(UnaryOp::Exp);
    roots.push(tall.reduce(ReduceOp::Sum, &[0, 1]));
    roots.push(tall.reduce(ReduceOp::Max, &[0, 1]));
    roots.push(tall.reduce(ReduceOp::Sum, &[0]));
    // A softmax of one row.
    let row = a.reshape(&[13 * 3 * 41]);
    let top = row.reduce(ReduceOp::Max, &[0]);
    let powers = row.binary(BinaryOp::Sub, &top).unary(UnaryOp::Exp);
    let sum = powers.reduce(ReduceOp::Sum, &[0]);
    roots.push(powers.binary(BinaryOp::Div, &sum));
    test.check(&rig.client(), &roots);
}

/// NaN, and equal values in several parts: the first of all is found.
#[apply(every_device)]
fn index_reduction_finds_the_first_of_equal_values_in_any_part(on: On) {
    let rig = on.open();
    let mut test = TestGraph {
        parts: short(),
        ..TestGraph::default()
    };
    let mut roots = Vec::new();
    let len = 509;
    let all = [
        ReduceOp::Max,
        ReduceOp::Min,
        ReduceOp::ArgMax,
        ReduceOp::ArgMin,
    ];
    for (value, places) in [
        (f64::NAN, vec![300]),
        (f64::NAN, vec![508, 77, 78, 400]),
        (9.0, vec![63, 64, 200, 508]),
        (-9.0, vec![7, 8, 9, 15, 16]),
        (f64::INFINITY, vec![508]),
        (f64::NEG_INFINITY, (0..509).collect()),
        (f64::NAN, (0..509).collect()),
    ] {
        let mut data: Vec<Number> = (0..len)
            .map(|i| Number::Float((i % 11) as f64 / 8.0))
            .collect();
        for place in places {
            data[place] = Number::Float(value);
        }
        let x = test.input(DType::F32, &[len], data);
        roots.extend(all.map(|op| x.reduce(op, &[0])));
    }
    let x = test.input(
        DType::I32,
        &[2, len],
        vec![Number::Whole(i128::from(i32::MIN)); 2 * len],
    );
    roots.extend(all.map(|op| x.reduce(op, &[1])));
    // A NaN in one part poisons the sum of its row, and no other.
    let mut data = vec![Number::Float(1.0); 2 * len];
    data[3] = Number::Float(f64::NAN);
    let x = test.input(DType::F32, &[2, len], data);
    roots.push(x.reduce(ReduceOp::Sum, &[1]));
    roots.push(x.reduce(ReduceOp::Prod, &[1]));
    test.check(&rig.client(), &roots);
}

#[apply(every_device)]
fn rows_beyond_the_default_length_are_reduced_right(on: On) {
    let rig = on.open();
    let mut test = TestGraph::default();
    // A prime.
    let x = test.floats(DType::F32, &[65_537]);
    let roots = [
        x.unary(UnaryOp::Abs).reduce(ReduceOp::Sum, &[0]),
        x.reduce(ReduceOp::ArgMax, &[0]),
    ];
    let lazy: Vec<&LazyBuffer> = roots.iter().map(|root| &root.lazy).collect();
    // The maxima of the parts and their indices are one kernel.
    assert_eq!(items(&lazy, Parts::default()), 4);
    test.check(&rig.client(), &roots);
}

#[apply(every_device)]
fn split_reduction_over_nothing_is_the_neutral_element(on: On) {
    let (_rig, client, stream) = on.start();
    let graph = Graph::new();
    let nothing = graph.input("nothing", DType::F32, [3, 0]);
    let sum = nothing.sum(1);
    let no_rows = nothing.reshape([0, 3]).broadcast_to([100_000, 0, 3]).sum(0);
    let t = graph.length("t", 8);
    let rows = graph.constant(DType::F32, 1.0).broadcast_to([8, 200]);
    let rows = rows.narrow(0, 0, &t).sum(1);
    let schedule = Schedule::create_split(&[&sum, &no_rows, &rows], short()).unwrap();
    let compiled = schedule.compile(&client).unwrap();
    let empty = stream.empty::<f32>(0).unwrap();
    for len in [0_usize, 5] {
        let run = compiled
            .run()
            .input(&nothing, &empty)
            .length(&t, len as u64);
        let out = run.submit(&stream).unwrap();
        let read = |root: usize| out[root].read::<f32>(&stream).unwrap().wait().unwrap();
        assert_eq!(read(0), [0.0; 3]);
        assert_eq!(read(1), [0.0; 0]);
        assert_eq!(read(2), vec![200.0; len]);
    }
}

/// The split does not depend on the device: every bit is the same.
#[test]
fn sums_have_the_same_bits_for_any_number_of_threads() {
    let data: Vec<f32> = (0..300_007)
        .map(|i| ((i as f32) * 0.618_034).fract() - 0.4)
        .collect();
    let sum = |threads: usize| {
        let device = Device::open(Cpu::default().threads(threads)).unwrap();
        let client = device.new_client();
        let stream = client.new_stream();
        let graph = Graph::new();
        let handle = stream.create(&data).unwrap();
        let x = graph.buffer(&handle, [data.len()]);
        let roots = [&x.exp().sum(0), &x.product(0), &x.variance(0)];
        let compiled = Schedule::create(&roots).unwrap().compile(&client).unwrap();
        let runs = (0..3).map(|_| {
            let out = compiled.run().submit(&stream).unwrap();
            [0, 1, 2].map(|root| {
                let got = out[root].read::<f32>(&stream).unwrap().wait().unwrap();
                got[0].to_bits()
            })
        });
        runs.collect::<Vec<_>>()
    };
    let one = sum(1);
    assert_eq!(one[0], one[2]);
    for threads in [2, 3, 8] {
        assert_eq!(sum(threads), one, "{threads} threads");
    }
}

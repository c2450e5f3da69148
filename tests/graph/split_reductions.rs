//! Reductions of few long rows in two stages: parts of the rows, and then the results of the parts. The cases of the
//! fuzzer compare their values.

use millstream::graph::{Graph, LazyBuffer, Parts, Schedule};
use millstream::{Cpu, DType, Device};
use rstest::rstest;
use rstest_reuse::apply;

use super::every_device;
use super::support::On;

/// Splits short rows too: parts of at least 8 elements.
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

#[test]
fn every_reduction_of_every_type_is_split() {
    let graph = Graph::new();
    // Adjacent rows count as one, which is long beyond eight times as many elements.
    for (shape, axis) in [([1, 509], 1), ([2, 131], 1), ([509, 1], 0), ([257, 2], 0)] {
        for dtype in DType::ALL {
            let x = graph.input("x", dtype, shape);
            let sums = [x.sum(axis), x.product(axis)];
            let others = [x.max(axis), x.min(axis), x.argmax(axis), x.argmin(axis)];
            let all = others
                .iter()
                .chain(sums.iter().filter(|_| dtype != DType::Bool));
            // Graphs do not compute with some types.
            for root in all.filter(|_| x.check().is_ok()) {
                assert_eq!(items(&[root], short()), 2, "{dtype} {shape:?}");
            }
        }
    }
}

#[apply(every_device)]
fn rows_beyond_the_default_length_are_reduced_right(on: On) {
    const COUNT: i64 = 65_537;
    let (_rig, client, stream) = on.start();
    // A prime number of elements, all different.
    let numbers: Vec<i64> = (0..COUNT).map(|at| at * 7_919 % COUNT).collect();
    let graph = Graph::new();
    let x = graph.buffer(&stream.create(&numbers).unwrap(), [COUNT as u64]);
    let roots = [&x.sum(0), &x.argmax(0)];
    // The maxima of the parts and their indices are one kernel.
    assert_eq!(items(&roots, Parts::default()), 4);
    let compiled = Schedule::create(&roots).unwrap().compile(&client).unwrap();
    let outputs = compiled.run().submit(&stream).unwrap();
    let got = [0, 1].map(|root| outputs[root].read::<i64>(&stream).unwrap().wait().unwrap()[0]);
    let greatest = numbers.iter().position(|it| *it == COUNT - 1);
    assert_eq!(got, [COUNT * (COUNT - 1) / 2, greatest.unwrap() as i64]);
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

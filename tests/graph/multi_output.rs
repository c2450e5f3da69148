//! Values over the same rows or elements of the same buffers: one kernel computes them, and reads the buffers once.

use millstream::graph::{DType, Graph, LazyBuffer, Outputs, Parts, Schedule};
use millstream::ir::ReduceOp::{ArgMax, Max, Min, Sum};
use millstream::ir::UnaryOp::{Exp, Neg};
use millstream::ir::scalar::Number;
use millstream::ir::{BinaryOp, CompareOp};
use rstest::rstest;
use rstest_reuse::apply;

use super::every_device;
use super::expected::{Expected, TestGraph, assert_same};
use super::failures::{failed, values};
use super::support::On;

/// Returns the number of tasks of a run of these roots, and the number of bytes of the buffers of its tasks, each
/// buffer once for each task.
fn cost(on: On, roots: &[&LazyBuffer]) -> (usize, u64) {
    let schedule = Schedule::create(roots).unwrap();
    let rig = on.open();
    let compiled = schedule.compile(&rig.client()).unwrap();
    let report = compiled.report(&[]);
    let bytes = report.items.iter().map(|item| item.bytes).sum();
    (compiled.tasks(), bytes)
}

/// Checks the roots together, and that each has the same value alone.
fn check(on: On, test: &TestGraph, roots: &[&Expected]) {
    let rig = on.open();
    let client = rig.client();
    test.check(&client, roots);
    let together = test.run(&client, roots);
    for (index, root) in roots.iter().enumerate() {
        let alone = test.run(&client, &[*root]);
        assert_same(&together[index], &alone[0], &format!("root {index}"));
    }
}

fn square(x: &Expected) -> Expected {
    x.binary(BinaryOp::Mul, x)
}

fn lazy<'a>(roots: &[&'a Expected]) -> Vec<&'a LazyBuffer> {
    roots.iter().map(|root| &root.lazy).collect()
}

#[apply(every_device)]
fn reductions_of_one_input_are_one_task_that_reads_it_once(on: On) {
    for axes in [&[1][..], &[0], &[0, 1]] {
        let mut test = TestGraph::default();
        let x = test.floats(DType::F32, &[40, 72]);
        let roots = [
            &x.reduce(Sum, axes),
            &x.reduce(Max, axes),
            &square(&x).reduce(Sum, axes),
        ];
        let rows: usize = roots[0].want.shape.iter().product();
        let bytes = 4 * (40 * 72 + 3 * rows) as u64;
        assert_eq!(cost(on, &lazy(&roots)), (1, bytes), "{axes:?}");
        check(on, &test, &roots);
    }
}

#[apply(every_device)]
fn elementwise_values_of_one_input_are_one_task(on: On) {
    let mut test = TestGraph::default();
    let x = test.floats(DType::F32, &[33, 65]);
    let y = test.floats(DType::F32, &[33, 65]);
    let roots = [
        &x.binary(BinaryOp::Mul, &y).unary(Exp),
        &x.binary(BinaryOp::Add, &y),
        &x.compare(CompareOp::Lt, &y),
    ];
    assert_eq!(cost(on, &lazy(&roots)), (1, 33 * 65 * (2 * 4 + 4 + 4 + 1)));
    check(on, &test, &roots);
}

#[apply(every_device)]
fn value_that_depends_on_another_output_is_computed_with_it(on: On) {
    let mut test = TestGraph::default();
    let x = test.floats(DType::F32, &[24, 50]);
    let max = x.reduce(Max, &[1]);
    let apart = x.binary(BinaryOp::Sub, &max.broadcast_to(&[24, 50]));
    let powers = apart.unary(Exp);
    let roots = [&max, &powers, &powers.unary(Neg), &powers.reduce(Sum, &[1])];
    // The last root reads the powers, and reduces an axis that they have not been reduced over.
    let (elements, rows) = (24 * 50, 24);
    let bytes =
        4 * ((elements + rows) + (rows + elements + elements + elements) + (elements + rows));
    let (tasks, found) = cost(on, &lazy(&roots));
    assert!(tasks <= 3 && found <= bytes, "{tasks} {found}");
    check(on, &test, &roots);
    // A mean and a variance: one kernel walks each row twice.
    let mean = x.lazy.mean(-1);
    let variance = (&x.lazy - &mean).square().sum(-1);
    assert_eq!(
        cost(on, &[&mean, &variance]),
        (1, 4 * (elements + 2 * rows))
    );
}

#[apply(every_device)]
fn outputs_of_one_task_may_have_different_types(on: On) {
    for dtype in [DType::F16, DType::Bf16, DType::F64, DType::I32, DType::U8] {
        let mut test = TestGraph::default();
        let x = test.numbers(dtype, &[5, 70]);
        let roots = [
            &x.reduce(Sum, &[1]),
            &x.reduce(ArgMax, &[1]),
            &x.cast(DType::F32).reduce(Min, &[1]),
            &x.compare(CompareOp::Gt, &x.reduce(Min, &[0]).broadcast_to(&[5, 70])),
        ];
        let (tasks, _) = cost(on, &lazy(&roots));
        assert_eq!(tasks, 2, "{dtype:?}: rows, and columns");
        check(on, &test, &roots);
    }
}

#[apply(every_device)]
fn value_computed_from_a_stored_half_uses_the_rounded_half(on: On) {
    let (_rig, client, stream) = on.start();
    for dtype in [DType::F16, DType::Bf16] {
        let graph = Graph::new();
        let x = graph.input("x", dtype, [64]);
        let third = &x / 3.0;
        let back = third.cast(DType::F32) * 3.0;
        let schedule = Schedule::create(&[&third, &back]).unwrap();
        assert_eq!(schedule.items().len(), 1, "{schedule}");
        let rounded = Schedule::create_one(&(x.cast(DType::F32) * 3.0)).unwrap();
        let one = match dtype {
            DType::F16 => 0x3c00_u16,
            _ => 0x3f80,
        };
        let ones = [one; 64];
        let bytes: Vec<u8> = ones.iter().flat_map(|one| one.to_le_bytes()).collect();
        let ones = stream.create(&bytes).unwrap();
        let run = schedule.compile(&client).unwrap();
        let made = run.run().input(&x, &ones).submit(&stream).unwrap();
        // The same computation, from the stored halves.
        let run = rounded.compile(&client).unwrap();
        let again = run
            .run()
            .input(&x, made[0].bytes())
            .submit(&stream)
            .unwrap();
        let values = |outputs: &Outputs, root| values(outputs, root, &stream).unwrap();
        assert_eq!(values(&made, 1), values(&again, 0), "{dtype:?}");
        assert_ne!(values(&made, 1), [1.0; 64], "{dtype:?}");
    }
}

#[apply(every_device)]
fn split_reductions_of_one_input_share_their_first_stage(on: On) {
    let mut test = TestGraph {
        parts: Parts::default()
            .of_rows_beyond(64)
            .of_at_least(8)
            .at_most(64),
        ..TestGraph::default()
    };
    let x = test.floats(DType::F32, &[512]);
    let roots = [
        &x.reduce(Sum, &[0]),
        &x.reduce(Max, &[0]),
        &x.reduce(ArgMax, &[0]),
    ];
    let schedule = Schedule::create_split(&lazy(&roots), test.parts).unwrap();
    assert_eq!(schedule.items().len(), 4, "{schedule}");
    check(on, &test, &roots);
}

#[apply(every_device)]
fn multi_output_kernel_supports_lengths_of_zero(on: On) {
    let (_rig, client, stream) = on.start();
    let graph = Graph::new();
    let (n, m) = (graph.length("n", 6), graph.length("m", 5));
    let whole = graph.input("x", DType::F32, [6, 5]);
    let x = whole.narrow(0, 0, &n).narrow(1, 0, &m);
    let roots = [x.sum(-1), x.max(-1), (&x * &x).sum(-1), x.softmax(-1)];
    let roots: Vec<&LazyBuffer> = roots.iter().collect();
    let schedule = Schedule::create(&roots).unwrap();
    assert_eq!(schedule.items().len(), 1, "{schedule}");
    let names: Vec<String> = schedule
        .lengths()
        .iter()
        .map(|it| it.name().to_owned())
        .collect();
    assert_eq!(names, ["n", "m"]);
    let compiled = schedule.compile(&client).unwrap();
    let data: Vec<f32> = (0..30).map(|i| (i % 7) as f32 - 2.0).collect();
    let handle = stream.create(&data).unwrap();
    for (rows, len) in [(6, 5), (0, 5), (6, 0), (0, 0), (1, 1), (4, 3)] {
        let run = compiled.run().length(&n, rows).length(&m, len);
        let outputs = run.input(&whole, &handle).submit(&stream).unwrap();
        let (rows, len) = (rows as usize, len as usize);
        let row = |row: usize| &data[row * 5..row * 5 + len];
        let each = |of: fn(&[f32]) -> f32| (0..rows).map(|it| of(row(it))).collect::<Vec<f32>>();
        assert_eq!(
            values(&outputs, 0, &stream),
            Some(each(|row| row.iter().sum()))
        );
        let max = |row: &[f32]| row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        assert_eq!(values(&outputs, 1, &stream), Some(each(max)));
        let squares = |row: &[f32]| row.iter().map(|x| x * x).sum();
        assert_eq!(values(&outputs, 2, &stream), Some(each(squares)));
        assert_eq!(
            values(&outputs, 3, &stream).map(|it| it.len()),
            Some(rows * len)
        );
    }
}

#[apply(every_device)]
fn failed_input_poisons_only_outputs_that_depend_on_it_i7(on: On) {
    let (_rig, client, stream) = on.start();
    let graph = Graph::new();
    let [a, b] = ["a", "b"].map(|name| graph.input(name, DType::F32, [4, 4]));
    // Reductions of both inputs, of `a`, of both, of `a` through another value: those that need `b` too are separate.
    let one = a.sum(-1);
    let roots = [
        &(&a * &b).sum(-1),
        &one,
        &(&a + &b).max(-1),
        &a.max(-1),
        &(&a - &one).max(-1),
        &(&b - &one).max(-1),
    ];
    let schedule = Schedule::create(&roots).unwrap();
    assert_eq!(schedule.items().len(), 3, "{schedule}");
    let compiled = schedule.compile(&client).unwrap();
    let ones = stream.create(&[1.0_f32; 16]).unwrap();
    let want = [4.0, 4.0, 2.0, 1.0, -3.0, -3.0];
    for _ in 0..3 {
        let (bad, run) = (failed(&stream, 16), compiled.run());
        let outputs = run
            .input(&a, &ones)
            .input(&b, &bad)
            .submit(&stream)
            .unwrap();
        for (root, want) in want.into_iter().enumerate() {
            let want = [1, 3, 4].contains(&root).then(|| vec![want; 4]);
            assert_eq!(values(&outputs, root, &stream), want, "root {root}");
        }
        let run = compiled.run().input(&a, &bad).input(&b, &ones);
        let outputs = run.submit(&stream).unwrap();
        for root in 0..roots.len() {
            assert_eq!(values(&outputs, root, &stream), None, "root {root}");
        }
        let run = compiled.run().input(&a, &ones).input(&b, &ones);
        let outputs = run.submit(&stream).unwrap();
        for (root, want) in want.into_iter().enumerate() {
            assert_eq!(
                values(&outputs, root, &stream),
                Some(vec![want; 4]),
                "root {root}"
            );
        }
    }
}

/// Two groups over the same rows, one of which depends on the other through a product.
#[apply(every_device)]
fn groups_with_a_dependency_through_a_product_are_not_merged(on: On) {
    let mut test = TestGraph::default();
    let x = test.floats(DType::F32, &[8, 8]);
    let first = x.unary(Exp);
    let between = first.matmul(&x);
    let second = x.binary(BinaryOp::Add, &between);
    let third = x.binary(BinaryOp::Mul, &between);
    let roots = [&first, &second, &third];
    let schedule = Schedule::create(&lazy(&roots)).unwrap();
    // Two groups need the product.
    assert_eq!(schedule.items().len(), 3, "{schedule}");
    check(on, &test, &roots);
}

#[apply(every_device)]
fn store_in_place_runs_after_all_readers_of_the_old_version(on: On) {
    let (_rig, client, stream) = on.start();
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [2, 3]);
    let (sum, max) = (x.sum(-1), x.max(-1));
    let new = x.set(&(&x - &sum));
    // Two readers of the old version and two of the new one, then one of both.
    let roots = [
        &sum,
        &new,
        &max,
        &new.sum(-1),
        &new.max(-1),
        &(&new + &x).sum(-1),
    ];
    let schedule = Schedule::create(&roots).unwrap();
    let compiled = schedule.compile(&client).unwrap();
    for _ in 0..3 {
        let handle = stream.create(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let outputs = compiled.run().input(&x, &handle).submit(&stream).unwrap();
        let values = |root| values(&outputs, root, &stream).unwrap();
        assert_eq!(values(0), [6.0, 15.0], "{schedule}");
        assert_eq!(values(1), [-5.0, -4.0, -3.0, -11.0, -10.0, -9.0]);
        assert_eq!(values(2), [3.0, 6.0]);
        assert_eq!(values(3), [-12.0, -30.0]);
        assert_eq!(values(4), [-3.0, -9.0]);
        assert_eq!(values(5), [-6.0, -15.0]);
        assert_eq!(stream.read(&handle).wait().unwrap(), values(1));
    }
}

/// One of several outputs may take the memory of a temporary that is no longer needed.
#[apply(every_device)]
fn one_of_several_outputs_may_reuse_the_memory_of_an_input(on: On) {
    let mut test = TestGraph::default();
    // Small integers, so that sums are exact.
    let data = (0..256).map(|index| Number::Float(f64::from(index * 7 % 5 - 2)));
    let x = test.input(DType::F32, &[16, 16], data.collect());
    let product = x.matmul(&x);
    let (squares, less) = (square(&product), product.unary(Neg));
    // The products force the elementwise results into buffers.
    let roots = [&squares.matmul(&x), &less.matmul(&x)];
    check(on, &test, &roots);
    let schedule = Schedule::create(&lazy(&roots)).unwrap();
    assert_eq!(schedule.items().len(), 4, "{schedule}");
    let rig = on.open();
    let compiled = schedule.compile(&rig.client()).unwrap();
    assert!(compiled.temporary_bytes() <= 2 * 16 * 16 * 4, "{schedule}");
}

#[apply(every_device)]
fn merged_kernel_has_at_most_eight_buffers(on: On) {
    let mut test = TestGraph::default();
    let x = test.floats(DType::F32, &[6, 20]);
    let each = |by: usize| {
        let mut value = x.clone();
        for _ in 0..by {
            value = value.binary(BinaryOp::Mul, &x);
        }
        value.reduce(Sum, &[1])
    };
    let roots: Vec<Expected> = (0..16).map(each).collect();
    let roots: Vec<&Expected> = roots.iter().collect();
    let schedule = Schedule::create(&lazy(&roots)).unwrap();
    // Seven outputs and the input for each task.
    assert_eq!(schedule.items().len(), 3, "{schedule}");
    check(on, &test, &roots);
}

#[test]
fn texts_list_all_outputs_of_an_item() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [4, 8]);
    let schedule = Schedule::create(&[&x.sum(-1), &x.max(-1)]).unwrap();
    let text = schedule.to_string();
    let line = "t0 f32 [4, 1], t1 f32 [4, 1]  (x, t0, t1)  b1 = sum(b0); b2 = max(b0)";
    assert!(text.contains(line), "{text}");
    let dot = schedule.dot();
    assert!(dot.contains("f32 [4, 1]\\n"), "{dot}");
}

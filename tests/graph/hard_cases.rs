//! Known errors of graph compilers, case by case.

use millstream::DType;
use millstream::graph::{Graph, GraphCache, ItemKind, LazyBuffer, Schedule, ScheduleError, Size};
use millstream::ir::scalar::Number;
use millstream::ir::{BinaryOp, ReduceOp, UnaryOp};
use rstest::rstest;
use rstest_reuse::apply;

use super::ONE;
use super::every_device;
use super::expected::{Expected, TestGraph, compile};
use super::support::On;

fn is_send_and_sync<T: Send + Sync>() {}

#[test]
fn graph_types_are_send_and_sync() {
    is_send_and_sync::<Graph>();
    is_send_and_sync::<LazyBuffer>();
    is_send_and_sync::<Schedule>();
    is_send_and_sync::<millstream::graph::CompiledSchedule>();
    is_send_and_sync::<GraphCache>();
}

#[apply(every_device)]
fn reductions_are_right_for_any_number_and_length_of_rows(on: On) {
    let rig = on.open();
    let mut test = TestGraph::default();
    let mut roots = Vec::new();
    for (rows, columns) in [(100, 40), (40, 100), (3, 1000), (1, 33), (70, 1), (129, 31)] {
        let x = test.floats(DType::F32, &[rows, columns]);
        roots.push(x.reduce(ReduceOp::Sum, &[1]));
        roots.push(x.reduce(ReduceOp::Max, &[0]));
        let top = x.reduce(ReduceOp::Max, &[1]);
        let powers = x
            .binary(BinaryOp::Sub, &top)
            .unary(millstream::ir::UnaryOp::Exp);
        let sum = powers.reduce(ReduceOp::Sum, &[1]);
        roots.push(powers.binary(BinaryOp::Div, &sum));
    }
    test.check(&rig.client(), &roots);
}

#[apply(every_device)]
fn expression_of_many_buffers_is_split_into_several_kernels(on: On) {
    let rig = on.open();
    let mut test = TestGraph::default();
    let all: Vec<Expected> = (0..20).map(|_| test.floats(DType::F32, &[5, 7])).collect();
    let sum = all[1..]
        .iter()
        .fold(all[0].clone(), |sum, x| sum.binary(BinaryOp::Add, x));
    let schedule = Schedule::create_one(&sum.lazy).unwrap();
    assert!(schedule.items().len() > 1);
    for item in schedule.items() {
        assert!(item.program().unwrap().buffers().len() <= 8, "{schedule}");
    }
    test.check(&rig.client(), &[&sum]);
}

#[test]
fn constant_that_is_used_twice_needs_no_buffer() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [8]);
    let two = graph.constant(DType::F32, 2.0);
    let y = (&x * &two).exp() + &two;
    let z = (&x + &two).sum(0) * &two;
    let schedule = Schedule::create(&[&y, &z]).unwrap();
    assert_eq!(schedule.items().len(), 2, "{schedule}");
}

/// The first rows and columns of a product have the same places as those of the whole, so a compiler may take a part
/// for the whole.
#[apply(every_device)]
fn narrowed_product_stores_only_its_part(on: On) {
    let rig = on.open();
    let mut test = TestGraph::default();
    let a = test.floats(DType::F32, &[3, 4, 6]);
    let b = test.floats(DType::F32, &[3, 6, 5]);
    let whole = |test: &mut TestGraph| {
        let (a, b) = (
            test.floats(DType::F32, &[4, 6]),
            test.floats(DType::F32, &[6, 5]),
        );
        a.matmul(&b)
    };
    let roots = [
        whole(&mut test).narrow(1, 0, 2),
        whole(&mut test).narrow(0, 0, 3).unary(UnaryOp::Exp),
        whole(&mut test).narrow(0, 0, 1),
        a.matmul(&b).narrow(0, 0, 2).narrow(2, 0, 3),
    ];
    test.check(&rig.client(), &roots);
}

#[apply(every_device)]
fn integer_operations_are_exact(on: On) {
    let rig = on.open();
    let mut test = TestGraph::default();
    let large = (1_i128 << 53) + 1;
    let data = [
        large,
        -large,
        large + 1,
        i128::from(i64::MAX),
        i128::from(i64::MIN),
        3,
    ];
    let x = test.input(DType::I64, &[6], data.map(Number::Whole).to_vec());
    let y = test.input(
        DType::I64,
        &[6],
        [1, 0, 2, 1, -1, 0].map(Number::Whole).to_vec(),
    );
    let roots = [
        x.reduce(ReduceOp::Max, &[0]),
        x.reduce(ReduceOp::Min, &[0]),
        x.reduce(ReduceOp::Sum, &[0]),
        x.narrow(0, 0, 3).reduce(ReduceOp::Max, &[0]),
        x.binary(BinaryOp::Add, &y),
        x.binary(BinaryOp::Mul, &y),
        x.binary(BinaryOp::Div, &y),
        x.binary(BinaryOp::Rem, &y),
        x.reduce(ReduceOp::ArgMax, &[0]),
    ];
    test.check(&rig.client(), &roots);
}

#[apply(every_device)]
fn nan_and_infinities_propagate_as_defined(on: On) {
    let rig = on.open();
    for dtype in [DType::F32, DType::F64] {
        let mut test = TestGraph::default();
        let odd = [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            0.0,
            -0.0,
            1e30,
            -1.5,
            88.9,
            -104.0,
        ];
        let data: Vec<Number> = odd
            .iter()
            .cycle()
            .take(45)
            .map(|x| Number::Float(*x))
            .collect();
        let x = test.input(dtype, &[5, 9], data);
        let y = test
            .input(dtype, &[9, 1], odd.map(Number::Float).to_vec())
            .reshape(&[9]);
        let mut roots: Vec<Expected> = millstream::ir::UnaryOp::ALL
            .iter()
            .filter(|op| op.takes(dtype))
            .map(|op| {
                // The accuracy of sines of large numbers is not tested here.
                let tame = if op.name() == "sin" || op.name() == "cos" {
                    x.binary(BinaryOp::Min, &y)
                } else {
                    x.clone()
                };
                tame.unary(*op)
            })
            .filter(|made| made.lazy.error().is_none())
            .collect();
        roots.push(x.reduce(ReduceOp::Max, &[1]));
        roots.push(x.reduce(ReduceOp::ArgMin, &[1]));
        roots.push(x.narrow(1, 1, 2).reduce(ReduceOp::Sum, &[1]));
        roots.push(x.cast(DType::I32));
        roots.push(x.cast(DType::U8));
        roots.push(x.cast(DType::Bool));
        roots.push(x.compare(millstream::ir::CompareOp::Ne, &x));
        test.check(&rig.client(), &roots);
    }
}

#[apply(every_device)]
fn operations_on_empty_shapes_are_defined(on: On) {
    let rig = on.open();
    let mut test = TestGraph::default();
    let x = test.floats(DType::F32, &[0, 4]);
    let y = test.floats(DType::F32, &[4, 0]);
    let roots = [
        x.binary(BinaryOp::Add, &x),
        x.reduce(ReduceOp::Sum, &[0]),
        x.reduce(ReduceOp::Sum, &[1]),
        y.matmul(&x),
        x.reshape(&[0]),
    ];
    test.check(&rig.client(), &roots);
}

#[test]
fn realized_buffer_releases_its_operands() {
    let (_rig, client, stream) = ONE.start();
    let graph = Graph::new();
    let start = stream.create(&[1.0_f32; 64]).unwrap();
    let mut x = graph.buffer(&start, [64]);
    let cache = GraphCache::default();
    for step in 0..200 {
        x = &x * 1.01 + f64::from(step);
        let compiled = Schedule::create_one(&x)
            .unwrap()
            .compile_with_cache(&client, &cache);
        let outputs = compiled.unwrap().run().submit(&stream).unwrap();
        x.realize(outputs[0].bytes()).unwrap();
        assert!(x.is_realized());
        assert_eq!(graph.len(), 1, "step {step}");
    }
    // Each step has another constant, which is a launch word, so all use one kernel.
    assert_eq!(cache.stats().kernels_compiled, 1);
}

#[test]
fn chain_of_200_000_operations_needs_no_stack() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [64]);
    let mut y = x.clone();
    for _ in 0..100_000 {
        y = (y + 1.0).abs();
    }
    let schedule = Schedule::create_one(&y).unwrap();
    assert!(schedule.items().len() > 1000);
    drop((schedule, y, x));
    assert!(graph.is_empty());
}

#[apply(every_device)]
fn reduction_of_a_whole_array_is_right(on: On) {
    let rig = on.open();
    let mut test = TestGraph::default();
    let x = test.ints(DType::I64, &[100_003]);
    let roots = [
        x.reduce(ReduceOp::Sum, &[0]),
        x.reduce(ReduceOp::ArgMax, &[0]),
    ];
    test.check(&rig.client(), &roots);
}

/// Node ids are reused, so an input is identified by more than its id.
#[test]
fn node_with_the_id_of_an_input_of_another_graph_is_not_that_input() {
    let (_rig, client, stream) = ONE.start();
    let handle = stream.create(&[1.0_f32; 8]).unwrap();
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [8]);
    let schedule = Schedule::create_one(&(&x + 1.0)).unwrap();
    let compiled = schedule.compile(&client).unwrap();
    let elsewhere = Graph::new().input("y", DType::F32, [8]);
    assert!(!compiled.run().takes(&elsewhere));
    let unknown = compiled.run().input(&elsewhere, &handle).submit(&stream);
    assert!(matches!(
        unknown,
        Err(ScheduleError::UnknownArgument { what: "input", .. })
    ));
    drop(x);
    let others: Vec<LazyBuffer> = (0..4).map(|_| graph.input("z", DType::F32, [8])).collect();
    assert!(!others.iter().any(|other| compiled.run().takes(other)));
    drop((schedule, compiled, others));
    assert!(graph.is_empty());
}

#[test]
fn unknown_input_name_is_refused() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [8]);
    let schedule = Schedule::create_one(&(&x + 1.0)).unwrap();
    assert_eq!(schedule.inputs().collect::<Vec<_>>(), ["x"]);
    assert!(schedule.input("x").is_ok());
    let missing = schedule.input("y");
    assert!(matches!(
        missing,
        Err(ScheduleError::UnknownArgument { what: "input", .. })
    ));
    assert_eq!(schedule.items()[0].kind(), ItemKind::Kernel);
}

#[test]
fn means_of_halves_are_summed_in_f32() {
    let (_rig, client, stream) = ONE.start();
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [100_000]);
    for dtype in [DType::F16, DType::Bf16] {
        let halves = x.cast(dtype);
        let roots = [
            &halves.mean(0),
            &halves.variance(0),
            &halves.normalize(0, 1e-8),
        ];
        let wide: Vec<LazyBuffer> = roots.iter().map(|root| root.cast(DType::F32)).collect();
        let wide: Vec<&LazyBuffer> = wide.iter().collect();
        let compiled = Schedule::create(&wide).unwrap().compile(&client).unwrap();
        let numbers: Vec<f32> = (0..100_000).map(|i| 2.0 + (i % 2) as f32).collect();
        let numbers = stream.create(&numbers).unwrap();
        let outputs = compiled.run().input(&x, &numbers).submit(&stream).unwrap();
        let read = |index: usize| outputs[index].read::<f32>(&stream).unwrap().wait().unwrap();
        assert_eq!((read(0), read(1)), (vec![2.5], vec![0.25]), "{dtype}");
        assert_eq!(read(2)[..2], [-1.0, 1.0], "{dtype}");
    }
}

/// Zero lengths at every position where axes do not merge.
#[apply(every_device)]
fn reduction_over_no_elements_is_the_neutral_element(on: On) {
    let (_rig, client, stream) = on.start();
    let none = stream.empty::<f32>(0).unwrap();
    let graph = Graph::new();
    let wide = graph.input("wide", DType::F32, [0, 8]);
    let tall = graph.input("tall", DType::F32, [3, 0]);
    let column = graph.input("column", DType::F32, [3, 1]);
    let deep = graph.input("deep", DType::F32, [2, 0, 3]);
    let ones = stream.create(&[1.0_f32; 3]).unwrap();
    let roots = [
        wide.t().sum(1),
        wide.t().sum([0, 1]),
        (&tall + &column).sum([0, 1]),
        (&tall + &column).max(1),
        tall.t().softmax(-1).t(),
        wide.t().softmax(-1).t().sum(0),
        deep.permute([2, 0, 1]).sum([1, 2]),
        deep.permute([1, 2, 0]).product(0),
        deep.transpose(0, 2).sum(0),
    ];
    let want = [
        vec![0.0; 8],
        vec![0.0],
        vec![0.0],
        vec![f32::NEG_INFINITY; 3],
        vec![],
        vec![0.0; 8],
        vec![0.0; 3],
        vec![1.0; 6],
        vec![],
    ];
    for (at, (root, want)) in roots.iter().zip(want).enumerate() {
        let compiled = compile(&client, root);
        for _ in 0..3 {
            let mut run = compiled.run();
            for (input, handle) in [
                (&wide, &none),
                (&tall, &none),
                (&column, &ones),
                (&deep, &none),
            ] {
                if run.takes(input) {
                    run = run.input(input, handle);
                }
            }
            let outputs = run.submit(&stream).unwrap();
            let got = outputs[0].read::<f32>(&stream).unwrap().wait().unwrap();
            assert_eq!(got, want, "root {at}");
        }
    }
}

#[apply(every_device)]
fn mean_of_ones_is_one_and_of_nothing_nan_for_known_and_symbolic_lengths(on: On) {
    let (_rig, client, stream) = on.start();
    let graph = Graph::new();
    let n = graph.length("n", 200);
    let x = graph.input("x", DType::F32, [Size::from(&n)]);
    let symbolic = compile(&client, &x.mean(0));
    let ones = stream.create(&[1.0_f32; 200]).unwrap();
    let first = |outputs: millstream::graph::Outputs| {
        outputs[0].read::<f32>(&stream).unwrap().wait().unwrap()[0]
    };
    for length in 0..200_u64 {
        let run = symbolic.run().input(&x, &ones).length(&n, length);
        let mean = first(run.submit(&stream).unwrap());
        assert!(
            if length == 0 {
                mean.is_nan()
            } else {
                mean == 1.0
            },
            "{length}: {mean}"
        );
    }
    for length in [0_u64, 1, 41, 49, 99] {
        let x = graph.input("x", DType::F32, [length as i64]);
        let known = compile(&client, &x.mean(0));
        let mean = first(known.run().input(&x, &ones).submit(&stream).unwrap());
        assert!(
            if length == 0 {
                mean.is_nan()
            } else {
                mean == 1.0
            },
            "{length}: {mean}"
        );
    }
}

#[test]
fn refused_operation_names_the_method_and_the_location() {
    let graph = Graph::new();
    let x = graph.input("x", DType::F32, [2, 3]);
    let whole = graph.input("whole", DType::I32, [2, 3]);
    let text = |refused: &LazyBuffer| refused.check().unwrap_err().to_string();
    let flat = x.reshape([6]);
    assert!(text(&LazyBuffer::cat([&x, &flat], 0)).contains("the ranks 2 and 1 differ"));
    for (name, refused) in [
        ("softmax", whole.softmax(0)),
        ("log_softmax", whole.log_softmax(0)),
        ("variance", whole.variance(0)),
        ("normalize", whole.normalize(0, 1e-5)),
    ] {
        let text = text(&refused);
        assert!(
            text.starts_with(&format!("`{name}` of i32 [2, 3]: i32 is not supported")),
            "{text}"
        );
        assert!(text.contains("hard_cases.rs"), "{text}");
    }
}

#[test]
fn buffer_is_realized_only_by_its_own_elements_or_bytes() {
    let (_rig, _, stream) = ONE.start();
    let graph = Graph::new();
    let sum = graph.input("x", DType::F32, [4]) + 1.0;
    let whole = stream.create(&[1_i32; 4]).unwrap();
    let refused = sum.realize(&whole).unwrap_err();
    assert!(
        matches!(refused, ScheduleError::Elements { .. }),
        "{refused}"
    );
    sum.realize(&whole.cast::<u8>().unwrap()).unwrap();
    assert!(sum.is_realized());
}

#[apply(every_device)]
fn take_with_indices_of_several_axes_inserts_these_axes(on: On) {
    let (_rig, client, stream) = on.start();
    let graph = Graph::new();
    let x = graph.iota(6).reshape([3, 2]);
    let at = graph.input("at", DType::I64, [2, 2]);
    let y = x.take(0, &at);
    assert_eq!(y.shape().known(), Some(vec![2, 2, 2]));
    let compiled = compile(&client, &y);
    let handle = stream.create(&[2_i64, 0, 7, 1]).unwrap();
    let outputs = compiled.run().input(&at, &handle).submit(&stream).unwrap();
    let got = outputs[0].read::<i64>(&stream).unwrap().wait().unwrap();
    assert_eq!(got, [4, 5, 0, 1, 0, 0, 2, 3]);
}

#[apply(every_device)]
fn u64_supports_integer_operations(on: On) {
    let (_rig, client, stream) = on.start();
    let graph = Graph::new();
    let x = graph.input("x", DType::U64, [2, 2]);
    let large = [u64::MAX, 1, 1 << 63, 3];
    let handle = stream.create(&large).unwrap();
    let roots = [
        x.sum(1),
        &x / 2,
        x.max(..),
        x.matmul_t(&x),
        x.cast(DType::I64).cast(DType::U64),
        x.greater(1_u64 << 62).cast(DType::U64),
    ];
    let all: Vec<&LazyBuffer> = roots.iter().collect();
    let compiled = Schedule::create(&all).unwrap().compile(&client).unwrap();
    let outputs = compiled.run().input(&x, &handle).submit(&stream).unwrap();
    let got = outputs
        .iter()
        .map(|it| it.read::<u64>(&stream).unwrap().wait().unwrap());
    let want = [
        vec![0, (1 << 63) + 3],
        large.map(|it| it / 2).to_vec(),
        vec![u64::MAX],
        vec![2, (1 << 63) + 3, (1 << 63) + 3, 9],
        large.to_vec(),
        vec![1, 0, 1, 0],
    ];
    assert_eq!(got.collect::<Vec<_>>(), want);
}

/// A side of a product is also an operand of its epilogue, at the same place of the same buffer.
#[apply(every_device)]
fn side_of_a_product_may_be_an_operand_of_its_epilogue(on: On) {
    let (_rig, _, stream) = on.start();
    let graph = Graph::new();
    let (a, b) = (
        graph.buffer(&stream.create(&[3.0_f32]).unwrap(), [1, 1]),
        graph.buffer(&stream.create(&[1.0_f32, 2.0, 3.0, 4.0]).unwrap(), [4]),
    );
    let row = b.reshape([1, 4]);
    let product = a.matmul(&row) * &row;
    let values = product.eval(&stream).unwrap();
    assert_eq!(values.values::<f32>().unwrap(), [3.0, 12.0, 27.0, 48.0]);
    let none = graph.buffer(&stream.create::<f32>(&[]).unwrap(), [2, 0, 0]);
    let flat = none.merge_axes(0, 1);
    let product = none.matmul(&flat) * &flat;
    let values = product.eval(&stream).unwrap();
    assert_eq!(values.values::<f32>().unwrap(), [0.0; 0]);
}
